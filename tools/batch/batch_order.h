#pragma once

#include <vector>

#include "tools/batch/batch_input.h"

namespace baton::batch {

// What a line costs, in tokens of an answer: `limit`, and a part of it for each token of the
// prompt, of which a worker reads many in the time of one that it draws. A line without a limit
// counts as `unlimited` tokens.
double ExpectedCost(const InputLine& line, int64_t unlimited);

// The longest limit of `lines`: how long an answer may become that has none. At least 1024.
int64_t LongestLimit(const std::vector<InputLine>& lines);

// Puts the dearest first, equal ones in the order of the file, so that the end of a batch is many
// short answers side by side and not one long one alone.
void OrderByCost(std::vector<InputLine>* lines);

}  // namespace baton::batch

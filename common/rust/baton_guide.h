#pragma once

// Guides: grammars that an answer has to follow, as masks over a vocabulary. A part of the C face
// of the Rust library, by the rules of baton_text.h, except that a state is used by one thread at a
// time; only baton_guide_cancel may come from any other meanwhile.

#include "common/rust/baton_text.h"

#ifdef __cplusplus
extern "C" {
#endif

// A vocabulary of tokens by id, and the ids that end an answer, of which there is at least one.
typedef struct BatonGuideVocabulary BatonGuideVocabulary;
BatonStatus baton_guide_vocabulary_new(const BatonToken* tokens, size_t count, const uint32_t* eos,
                                       size_t eos_count, BatonGuideVocabulary** out,
                                       BatonBuffer* error);
void baton_guide_vocabulary_free(BatonGuideVocabulary* vocabulary);

typedef enum {
  BATON_GUIDE_JSON_SCHEMA = 1,
  BATON_GUIDE_JSON_OBJECT = 2,  // the text means nothing
  BATON_GUIDE_REGEX = 3,
  BATON_GUIDE_CHOICE = 4,   // a JSON list of strings
  BATON_GUIDE_GRAMMAR = 5,  // in the dialect of Lark that llguidance reads
} BatonGuideKind;

// A compiled guide. The vocabulary may be freed before it. BATON_INVALID for a text that is none of
// its kind, that no answer can follow, or that would cost too much; BATON_BUSY where there was no
// thread for it, or the thread did not get a processor for long enough.
typedef struct BatonGuide BatonGuide;
BatonStatus baton_guide_compile(const BatonGuideVocabulary* vocabulary, uint32_t kind,
                                BatonSlice text, BatonGuide** out, BatonBuffer* error);
void baton_guide_free(BatonGuide* guide);

// Where one answer is in a guide, at first at its beginning. The guide may be freed before it.
typedef struct BatonGuideState BatonGuideState;
BatonStatus baton_guide_start(const BatonGuide* guide, BatonGuideState** out, BatonBuffer* error);
void baton_guide_state_free(BatonGuideState* state);
// Writes which ids may come next: bit id % 32 of words[id / 32], in (tokens + 31) / 32 words.
// `*only_end` says whether none but EOS may. BATON_INVALID where this costs too much; the state is
// then of no more use.
BatonStatus baton_guide_mask(const BatonGuideState* state, uint32_t* words, size_t count,
                             uint8_t* only_end, BatonBuffer* error);
// Writes the first bytes of what every answer goes on with from here, at most `capacity`, and how
// many these are: none where there is a choice, where the answer may end, and where a special token
// has to come. BATON_INVALID where this costs too much; the state is then of no more use.
BatonStatus baton_guide_forced(const BatonGuideState* state, uint8_t* bytes, size_t capacity,
                               size_t* count, BatonBuffer* error);
// Goes on by tokens. BATON_INVALID if one of them may not come; the state is then of no more use.
BatonStatus baton_guide_take(const BatonGuideState* state, const uint32_t* ids, size_t count,
                             BatonBuffer* error);
// Ends the work on a state that is under way on another thread, and all that comes, as
// BATON_INVALID: within some microseconds, without waiting for it.
void baton_guide_cancel(const BatonGuideState* state);

#ifdef __cplusplus
}  // extern "C"
#endif

#include "router/request/request_progress.h"

#include <span>
#include <utility>

#include "common/rpc/generation.h"
#include "router/request/flow_context.h"
#include "router/request/length_class.h"

namespace baton {
namespace {

// Whether anything that is measured at a token is read by somebody.
bool ReadsFigures(const RequestProgress& progress) {
  const RequestSpec& spec = progress.spec;
  return spec.logprobs || spec.ranked() || spec.eos_steps || spec.eos_probe || progress.logged ||
         progress.watched;
}

}  // namespace

worker::v1::Generation GenerationOf(const RequestProgress& progress, const FlowContext& context) {
  const RequestSpec& spec = progress.spec;
  SequenceSpec sequence;
  sequence.prompt = spec.prompt;
  sequence.generated = progress.output.ids();
  sequence.sampling = spec.sampling;
  sequence.stop = spec.stop;
  sequence.beams = spec.beams;
  sequence.guide = spec.guide;
  sequence.bare_forced = !ReadsFigures(progress);
  sequence.natural_end_step = progress.output.natural_end_step();
  sequence.end_chance_step = progress.output.end_chance_step();
  if (progress.score_from > 0) sequence.score_from = progress.score_from;
  sequence.cache_salt = spec.cache_salt;
  sequence.length_class = LengthClassOf(spec);
  sequence.waited = context.clock->Now() - progress.arrived;
  worker::v1::Generation generation;
  SpecToProto(sequence, &generation);
  generation.set_predict(spec.predict_every > 0 || progress.watched);
  generation.set_request_id(spec.request_id);
  generation.set_eos_signals(spec.eos_steps || progress.logged || progress.watched);
  generation.set_probe(spec.eos_probe);
  return generation;
}

std::shared_ptr<const PrefixChain> PrefixOf(const RequestProgress& progress, size_t generated,
                                            const FlowContext& context) {
  if (!context.options.looks_at_caches()) return nullptr;
  return std::make_shared<PrefixChain>(ChainOf(progress.spec.cache_salt, progress.spec.prompt,
                                               std::span(progress.output.ids()).first(generated),
                                               context.directory->BlockTokens()));
}

}  // namespace baton

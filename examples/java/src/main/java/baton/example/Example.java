package baton.example;

import baton.v1.ChatGenerateRequest;
import baton.v1.ChatGenerateResponse;
import baton.v1.ChatMessage;
import baton.v1.EosOptions;
import baton.v1.EosPolicy;
import baton.v1.GenerateRequest;
import baton.v1.GenerateResponse;
import baton.v1.GenerationSpec;
import baton.v1.SamplingParams;
import baton.v1.StopParams;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** Baton from Java, over gRPC: java -jar target/baton-example.jar --help */
public final class Example {
  private static final String PROMPT = "Once upon a time";
  private static final Set<String> FLAGS =
      Set.of("server", "only", "ca", "cert", "key", "server-name", "api-key", "retry-for");

  private interface Scene {
    void play(Baton baton) throws InterruptedException;
  }

  private static final Map<String, Scene> SCENES = new LinkedHashMap<>();

  static {
    SCENES.put("stream", Example::stream);
    SCENES.put("chat", Example::chat);
    SCENES.put("cancel", Example::cancel);
    SCENES.put("deadline", Example::deadline);
    SCENES.put("error", Example::error);
    SCENES.put("ends", Example::ends);
  }

  /** Takes the most likely token each time. */
  private static GenerationSpec.Builder spec(int maxTokens) {
    return GenerationSpec.newBuilder()
        .setSampling(SamplingParams.newBuilder().setTemperature(0))
        .setStop(StopParams.newBuilder().setMaxTokens(maxTokens));
  }

  /** A request that goes on when the model wants to end. */
  private static GenerateRequest.Builder longRequest(int maxTokens) {
    var spec = spec(maxTokens);
    spec.getStopBuilder().setEosPolicy(EosPolicy.EOS_POLICY_IGNORE_MASK);
    return GenerateRequest.newBuilder().setText(PROMPT).setSpec(spec);
  }

  /** Text as it comes. A call that fails is repeated, and goes on where the text broke off. */
  private static void stream(Baton baton) throws InterruptedException {
    show(baton, spec -> events(
        baton.stub().generate(GenerateRequest.newBuilder().setText(PROMPT).setSpec(spec).build()),
        (GenerateResponse response) -> new Baton.Event(
            response.hasStarted() ? response.getStarted() : null,
            response.hasDelta() ? response.getDelta() : null,
            response.hasFinal() ? response.getFinal() : null)));
  }

  /** A conversation, to which the server applies the model's template. */
  private static void chat(Baton baton) throws InterruptedException {
    var message = ChatMessage.newBuilder().setRole("user").setContent("Tell me a story about a fox.");
    show(baton, spec -> events(
        baton.stub().chatGenerate(ChatGenerateRequest.newBuilder().addMessages(message).setSpec(spec).build()),
        (ChatGenerateResponse response) -> new Baton.Event(
            response.hasStarted() ? response.getStarted() : null,
            response.hasDelta() ? response.getDelta() : null,
            response.hasFinal() ? response.getFinal() : null)));
  }

  private static <T> Iterator<Baton.Event> events(Iterator<T> responses, Function<T, Baton.Event> event) {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return responses.hasNext();
      }

      @Override
      public Baton.Event next() {
        return event.apply(responses.next());
      }
    };
  }

  private static void show(Baton baton, Function<GenerationSpec, Iterator<Baton.Event>> open)
      throws InterruptedException {
    var answer = baton.answer(spec(24), open, text -> {
      System.out.print(text);
      System.out.flush();
    });
    // A newer router may have reasons without a name here, which are UNRECOGNIZED.
    var reason = answer.end().getFinishReason().name().replace("FINISH_REASON_", "");
    System.out.printf("%n[%s, %d tokens, calls %d]%n", reason.toLowerCase(Locale.ROOT),
        answer.end().getUsage().getCompletionTokens(), answer.calls());
  }

  /** Cancelling its context ends the request at the server, too. */
  private static void cancel(Baton baton) {
    try (var context = Context.current().withCancellation()) {
      context.run(() -> {
        int tokens = 0;
        var responses = baton.stub().generate(longRequest(1000).build());
        try {
          while (responses.hasNext()) {
            tokens += responses.next().getDelta().getTokenIdsCount();
            if (tokens >= 5) {
              context.cancel(null);
              break;
            }
          }
        } finally {
          System.out.printf("cancelled after %d tokens%n", tokens);
        }
      });
    }
  }

  /** An answer that takes too long. */
  private static void deadline(Baton baton) {
    try {
      var stub = baton.stub().withDeadlineAfter(20, TimeUnit.MILLISECONDS);
      stub.generate(longRequest(1000).build()).forEachRemaining(response -> {});
    } catch (StatusRuntimeException late) {
      System.out.println(late.getStatus().getCode());
    }
  }

  /** What the server says of a request that is wrong. */
  private static void error(Baton baton) {
    var asked = GenerateRequest.newBuilder().setText(PROMPT).setSpec(spec(24));
    asked.getSpecBuilder().getSamplingBuilder().setTemperature(-1);
    try {
      baton.stub().generate(asked.build()).forEachRemaining(response -> {});
    } catch (StatusRuntimeException refusal) {
      var said = Baton.detailsOf(refusal);
      System.out.printf("%s %s at %s%n", said.code(), said.reason(), said.field());
    }
  }

  /** How likely each token was to be the last, and how many are expected to remain. */
  private static void ends(Baton baton) {
    var asked = longRequest(8);
    asked.getSpecBuilder().setEos(EosOptions.newBuilder().setSteps(true).setPredict(true));
    baton.stub().generate(asked.build()).forEachRemaining(response -> {
      for (var step : response.getDelta().getEosStepsList()) {
        if (step.hasEosProb()) { // A model without end tokens has none.
          System.out.printf(Locale.ROOT, "step %d: eos_prob %.6f%n", step.getStep(), step.getEosProb());
        }
      }
      if (response.hasPrediction()) {
        var ahead = response.getPrediction();
        System.out.printf(Locale.ROOT, "after %d: about %.1f remain%n", ahead.getAtStep(),
            ahead.getExpectedRemaining());
      }
    });
  }

  private static Map<String, String> parse(String[] arguments) {
    var flags = new LinkedHashMap<>(Map.of("server", "127.0.0.1:50051", "retry-for", "180"));
    for (int i = 0; i < arguments.length; i += 2) {
      var name = arguments[i].replaceFirst("^--", "");
      if (!FLAGS.contains(name) || i + 1 == arguments.length) {
        throw new IllegalArgumentException(arguments[i] + " is not a flag with a value: expected --"
            + String.join(" VALUE, --", FLAGS.stream().sorted().toList()) + " VALUE");
      }
      flags.put(name, arguments[i + 1]);
    }
    if (flags.containsKey("only") && !SCENES.containsKey(flags.get("only"))) {
      throw new IllegalArgumentException(
          "no scene " + flags.get("only") + ": expected one of " + String.join(", ", SCENES.keySet()));
    }
    return flags;
  }

  /** Plays the scenes; exit code 1 when one fails. */
  public static void main(String[] arguments) {
    try {
      var flags = parse(arguments);
      try (var baton = new Baton(flags)) {
        for (var scene : SCENES.entrySet()) {
          if (flags.getOrDefault("only", scene.getKey()).equals(scene.getKey())) {
            System.out.println("== " + scene.getKey());
            scene.getValue().play(baton);
          }
        }
      }
    } catch (Exception failure) {
      System.err.println("failed: " + failure.getMessage());
      System.exit(1);
    }
  }
}

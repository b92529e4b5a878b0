package baton.example;

import baton.v1.Delta;
import baton.v1.Final;
import baton.v1.GenerationSpec;
import baton.v1.InferenceServiceGrpc;
import baton.v1.Started;
import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.ChannelCredentials;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.MetadataUtils;
import java.io.File;
import java.io.IOException;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;

/** A connection to a router, and how to ask it again. */
final class Baton implements AutoCloseable {
  /** What an error says beside its message; null what it does not say. */
  record Details(Code code, String reason, String field, Double retryAfterS) {
    /** Whether sending the request again can help, as docs/clients.md says. */
    boolean mayRetry() {
      if (code == Code.UNAVAILABLE || retryAfterS != null) {
        return true;
      }
      return reason == null && Set.of(Code.CANCELLED, Code.UNKNOWN, Code.INTERNAL).contains(code);
    }
  }

  /** What one message of a stream has; those of Generate and of ChatGenerate have the same fields. */
  record Event(Started started, Delta delta, Final end) {}

  /** How an answer ended, and how many calls it took. */
  record Answer(Final end, int calls) {}

  private static final long ANSWER_MINUTES = 10; // Every call has a deadline.

  private final ManagedChannel channel;
  private final InferenceServiceGrpc.InferenceServiceBlockingStub stub;
  private final double retryForS;

  /** The flags are those of Example. */
  Baton(Map<String, String> flags) throws IOException {
    var builder = Grpc.newChannelBuilder(flags.get("server"), credentials(flags))
        // Notices a router that vanished without a word.
        .keepAliveTime(20, TimeUnit.SECONDS)
        .keepAliveTimeout(10, TimeUnit.SECONDS);
    if (flags.containsKey("server-name")) {
      builder.overrideAuthority(flags.get("server-name"));
    }
    channel = builder.build();
    retryForS = Double.parseDouble(flags.get("retry-for"));
    var headers = new Metadata();
    if (flags.containsKey("api-key")) {
      headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER),
          "Bearer " + flags.get("api-key"));
    }
    stub = InferenceServiceGrpc.newBlockingStub(channel)
        .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers));
  }

  private static ChannelCredentials credentials(Map<String, String> flags) throws IOException {
    boolean secure = flags.containsKey("ca");
    if (!secure && (flags.containsKey("cert") || flags.containsKey("key") || flags.containsKey("server-name"))) {
      throw new IOException("--cert, --key and --server-name are for TLS, which --ca turns on");
    }
    if (flags.containsKey("cert") != flags.containsKey("key")) {
      throw new IOException("--cert and --key belong together: expected both or none of them");
    }
    if (!secure) {
      return InsecureChannelCredentials.create();
    }
    var tls = TlsChannelCredentials.newBuilder().trustManager(new File(flags.get("ca")));
    if (flags.containsKey("cert")) {
      tls.keyManager(new File(flags.get("cert")), new File(flags.get("key")));
    }
    return tls.build();
  }

  /** For one call: a stub knows the moment of its deadline. */
  InferenceServiceGrpc.InferenceServiceBlockingStub stub() {
    return stub.withDeadlineAfter(ANSWER_MINUTES, TimeUnit.MINUTES);
  }

  @Override
  public void close() {
    channel.shutdownNow();
  }

  static Details detailsOf(StatusRuntimeException error) {
    String reason = null;
    String field = null;
    Double retryAfterS = null;
    var status = StatusProto.fromThrowable(error);
    try {
      for (Any detail : status.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          reason = detail.unpack(ErrorInfo.class).getReason();
        } else if (detail.is(RetryInfo.class)) {
          var delay = detail.unpack(RetryInfo.class).getRetryDelay();
          retryAfterS = delay.getSeconds() + delay.getNanos() / 1e9;
        } else if (detail.is(BadRequest.class)) {
          var violations = detail.unpack(BadRequest.class).getFieldViolationsList();
          field = violations.isEmpty() ? null : violations.get(0).getField();
        }
      }
    } catch (InvalidProtocolBufferException notOurs) {
      // A proxy's own details; the code still says something.
    }
    return new Details(error.getStatus().getCode(), reason, field, retryAfterS);
  }

  /**
   * Streams the text of an answer to `show`, over as many calls as it takes: `open` begins one.
   *
   * <p>A repeated call begins at the first token. With the seed of the first one it gives the same text, of which
   * so much is left out as was shown. Patience counts from the first failure since something new came.
   */
  Answer answer(GenerationSpec.Builder spec, Function<GenerationSpec, Iterator<Event>> open, Consumer<String> show)
      throws InterruptedException {
    int shown = 0;
    int failures = 0; // Since something new was shown.
    long failingSince = 0;
    for (int calls = 1; ; calls++) {
      var call = Context.current().withCancellation(); // So that it ends with this pass, also where `show` throws.
      var caller = call.attach();
      try {
        int skip = shown;
        var events = open.apply(spec.build());
        while (events.hasNext()) {
          var event = events.next();
          if (event.started != null) {
            spec.getSamplingBuilder().setSeed(event.started.getSeed());
            spec.clearRequestId(); // The broken call may still be in flight, and names in flight differ.
          } else if (event.delta != null) {
            String text = event.delta.getText();
            int known = Math.min(skip, text.length());
            skip -= known;
            shown += text.length() - known;
            if (known < text.length()) {
              failures = 0;
            }
            show.accept(text.substring(known));
          } else if (event.end != null) {
            return new Answer(event.end, calls);
          }
        }
        throw io.grpc.Status.INTERNAL.withDescription("the stream ended without a Final").asRuntimeException();
      } catch (StatusRuntimeException error) {
        if (caller.isCancelled()) {
          throw error;
        }
        var said = detailsOf(error);
        if (failures == 0) {
          failingSince = System.nanoTime();
        }
        failures++;
        double waitS = Math.max(said.retryAfterS == null ? 0 : said.retryAfterS, backOffS(failures));
        if (!said.mayRetry() || (System.nanoTime() - failingSince) / 1e9 + waitS > retryForS) {
          throw error;
        }
        Thread.sleep((long) Math.ceil(waitS * 1000));
        channel.resetConnectBackoff(); // It waits for up to two minutes by itself, longer than a router is away.
      } finally {
        call.detach(caller);
        call.cancel(null);
      }
    }
  }

  /** 0.1 s, twice as long after each failure, at most 2 s, times a random number from 0.5 to 1. */
  private static double backOffS(int failures) {
    return Math.min(2, 0.1 * (1 << Math.min(failures - 1, 10))) * ThreadLocalRandom.current().nextDouble(0.5, 1);
  }
}

// Baton from Go, over gRPC: go run . -help
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	batonv1 "baton/examples/go/gen/baton/v1"
)

const prompt = "Once upon a time"

// A request that takes the most likely token each time.
func request(maxTokens int32) *batonv1.GenerateRequest {
	return &batonv1.GenerateRequest{
		Input: &batonv1.GenerateRequest_Text{Text: prompt},
		Spec: &batonv1.GenerationSpec{
			Sampling: &batonv1.SamplingParams{Temperature: proto.Float32(0)},
			Stop:     &batonv1.StopParams{MaxTokens: proto.Int32(maxTokens)},
		},
	}
}

// One that goes on when the model wants to end.
func longRequest(maxTokens int32) *batonv1.GenerateRequest {
	asked := request(maxTokens)
	asked.Spec.Stop.EosPolicy = batonv1.EosPolicy_EOS_POLICY_IGNORE_MASK
	return asked
}

// Text as it comes. A call that fails is repeated, and goes on where the text broke off.
func stream(ctx context.Context, baton *client) error {
	asked := request(24)
	return show(ctx, baton, asked.Spec, func(ctx context.Context) (receiver, error) {
		call, err := baton.inference.Generate(ctx, asked)
		return func() (event, error) { return call.Recv() }, err
	})
}

// A conversation, to which the server applies the model's template.
func chat(ctx context.Context, baton *client) error {
	asked := &batonv1.ChatGenerateRequest{
		Spec:     request(24).Spec,
		Messages: []*batonv1.ChatMessage{{Role: "user", Content: "Tell me a story about a fox."}},
	}
	return show(ctx, baton, asked.Spec, func(ctx context.Context) (receiver, error) {
		call, err := baton.inference.ChatGenerate(ctx, asked)
		return func() (event, error) { return call.Recv() }, err
	})
}

func show(ctx context.Context, baton *client, spec *batonv1.GenerationSpec, open opener) error {
	final, calls, err := baton.answer(ctx, spec, open, func(text string) { fmt.Print(text) })
	if err != nil {
		return err
	}
	reason := strings.ToLower(strings.TrimPrefix(final.FinishReason.String(), "FINISH_REASON_"))
	fmt.Printf("\n[%s, %d tokens, calls %d]\n", reason, final.Usage.CompletionTokens, calls)
	return nil
}

// Cancelling the context ends the request at the server, too.
func cancel(ctx context.Context, baton *client) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	call, err := baton.inference.Generate(ctx, longRequest(1000))
	if err != nil {
		return err
	}
	for tokens := 0; ; {
		response, err := call.Recv()
		if status.Code(err) == codes.Canceled && ctx.Err() != nil {
			fmt.Printf("cancelled after %d tokens\n", tokens)
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() == nil {
			tokens += len(response.GetDelta().GetTokenIds())
		}
		if tokens >= 5 {
			stop()
		}
	}
}

// An answer that takes too long.
func deadline(ctx context.Context, baton *client) error {
	ctx, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	call, err := baton.inference.Generate(ctx, longRequest(1000))
	for err == nil {
		_, err = call.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		return err
	}
	fmt.Println("DEADLINE_EXCEEDED")
	return nil
}

// What the server says of a request that is wrong.
func wrong(ctx context.Context, baton *client) error {
	asked := request(24)
	asked.Spec.Sampling.Temperature = proto.Float32(-1)
	call, err := baton.inference.Generate(ctx, asked)
	for err == nil {
		_, err = call.Recv()
	}
	said := detailsOf(err)
	if said.code != codes.InvalidArgument {
		return err
	}
	fmt.Printf("INVALID_ARGUMENT %s at %s\n", said.reason, said.field)
	return nil
}

// How likely each token was to be the last, and how many are expected to remain.
func ends(ctx context.Context, baton *client) error {
	asked := longRequest(8)
	asked.Spec.Eos = &batonv1.EosOptions{Steps: true, Predict: true}
	call, err := baton.inference.Generate(ctx, asked)
	for err == nil {
		var response *batonv1.GenerateResponse
		response, err = call.Recv()
		for _, step := range response.GetDelta().GetEosSteps() {
			if step.EosProb != nil { // A model without end tokens has none.
				fmt.Printf("step %d: eos_prob %.6f\n", step.Step, *step.EosProb)
			}
		}
		if ahead := response.GetPrediction(); ahead != nil {
			fmt.Printf("after %d: about %.1f remain\n", ahead.AtStep, ahead.ExpectedRemaining)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

var scenes = []struct {
	name string
	play func(context.Context, *client) error
}{{"stream", stream}, {"chat", chat}, {"cancel", cancel}, {"deadline", deadline}, {"error", wrong}, {"ends", ends}}

func main() {
	var where target
	flag.StringVar(&where.server, "server", "127.0.0.1:50051", "host:port of the router")
	flag.StringVar(&where.ca, "ca", "", "PEM file: the authority of the router's certificate; turns TLS on")
	flag.StringVar(&where.cert, "cert", "", "PEM file: the client's certificate")
	flag.StringVar(&where.key, "key", "", "PEM file: its key")
	flag.StringVar(&where.serverName, "server-name", "", "the name that the router's certificate has, as router")
	flag.StringVar(&where.apiKey, "api-key", "", "sent with each call")
	retryFor := flag.Float64("retry-for", 180, "seconds")
	only := flag.String("only", "", "one scene: stream, chat, cancel, deadline, error or ends; without it, all")
	flag.Parse()
	if err := run(where, *only, time.Duration(*retryFor*float64(time.Second))); err != nil {
		fmt.Fprintf(os.Stderr, "failed: %v\n", err)
		os.Exit(1)
	}
}

func run(where target, only string, retryFor time.Duration) error {
	baton, err := connect(where, retryFor)
	if err != nil {
		return err
	}
	defer baton.connection.Close()
	played := false
	for _, scene := range scenes {
		if only != "" && only != scene.name {
			continue
		}
		played = true
		fmt.Printf("== %s\n", scene.name)
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
		err := scene.play(ctx, baton)
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", scene.name, err)
		}
	}
	if !played {
		return fmt.Errorf("no scene %s: expected stream, chat, cancel, deadline, error or ends", only)
	}
	return nil
}

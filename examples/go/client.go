package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	batonv1 "baton/examples/go/gen/baton/v1"
)

// Where the router is, and who asks.
type target struct {
	server, ca, cert, key, serverName, apiKey string
}

type client struct {
	connection *grpc.ClientConn
	inference  batonv1.InferenceServiceClient
	retryFor   time.Duration
}

func connect(where target, retryFor time.Duration) (*client, error) {
	secrets, err := where.credentials()
	if err != nil {
		return nil, err
	}
	withKey := func(ctx context.Context) context.Context {
		if where.apiKey == "" {
			return ctx
		}
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+where.apiKey)
	}
	slow := backoff.DefaultConfig
	slow.MaxDelay = time.Second
	connection, err := grpc.NewClient(where.server,
		grpc.WithTransportCredentials(secrets),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: slow, MinConnectTimeout: 5 * time.Second}),
		// Notices a router that vanished without a word.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
			next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(withKey(ctx), desc, cc, method, opts...)
		}))
	if err != nil {
		return nil, err
	}
	return &client{connection, batonv1.NewInferenceServiceClient(connection), retryFor}, nil
}

func (where target) credentials() (credentials.TransportCredentials, error) {
	if where.ca == "" && (where.cert != "" || where.key != "" || where.serverName != "") {
		return nil, errors.New("--cert, --key and --server-name are for TLS, which --ca turns on")
	}
	if (where.cert == "") != (where.key == "") {
		return nil, errors.New("--cert and --key belong together: expected both or none of them")
	}
	if where.ca == "" {
		return insecure.NewCredentials(), nil
	}
	authority, err := os.ReadFile(where.ca)
	if err != nil {
		return nil, err
	}
	settings := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: where.serverName}
	if !settings.RootCAs.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate: expected PEM", where.ca)
	}
	if where.cert != "" {
		own, err := tls.LoadX509KeyPair(where.cert, where.key)
		if err != nil {
			return nil, err
		}
		settings.Certificates = []tls.Certificate{own}
	}
	return credentials.NewTLS(settings), nil
}

// What an error says beside its message.
type details struct {
	code       codes.Code
	reason     string
	field      string
	retryAfter time.Duration // With hasRetry.
	hasRetry   bool
}

func detailsOf(err error) details {
	said := details{code: status.Code(err)}
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			said.reason = detail.Reason
		case *errdetails.RetryInfo:
			said.retryAfter, said.hasRetry = detail.RetryDelay.AsDuration(), true
		case *errdetails.BadRequest:
			if len(detail.FieldViolations) > 0 {
				said.field = detail.FieldViolations[0].Field
			}
		}
	}
	return said
}

// Whether sending the request again can help, as docs/clients.md says.
func (said details) mayRetry() bool {
	if said.code == codes.Unavailable || said.hasRetry {
		return true
	}
	ofTheConnection := said.code == codes.Canceled || said.code == codes.Unknown || said.code == codes.Internal
	return said.reason == "" && ofTheConnection
}

// A message of a stream. Those of Generate and of ChatGenerate have the same fields.
type event interface {
	GetStarted() *batonv1.Started
	GetDelta() *batonv1.Delta
	GetFinal() *batonv1.Final
}

// Gives the next message of a call.
type receiver func() (event, error)

// Begins a call.
type opener func(context.Context) (receiver, error)

// answer streams the text of an answer to show, over as many calls as it takes; returns its end and their number.
//
// A repeated call begins at the first token. With the seed of the first one it gives the same text, of which so
// much is left out as was shown. Patience counts from the first failure since something new came.
func (baton *client) answer(ctx context.Context, spec *batonv1.GenerationSpec, open opener,
	show func(string)) (*batonv1.Final, int, error) {
	shown := 0    // Characters.
	failures := 0 // Since something new was shown.
	var failingSince time.Time
	for calls := 1; ; calls++ {
		skip := shown
		final, err := readCall(ctx, open, func(started *batonv1.Started) {
			spec.Sampling.Seed = proto.Uint64(started.Seed)
			spec.RequestId = "" // The broken call may still be in flight, and names in flight differ.
		}, func(text string) {
			for ; skip > 0 && text != ""; skip-- {
				_, size := utf8.DecodeRuneInString(text)
				text = text[size:]
			}
			if text != "" {
				failures = 0
			}
			shown += utf8.RuneCountInString(text)
			show(text)
		})
		if err == nil {
			return final, calls, nil
		}
		said := detailsOf(err)
		if failures == 0 {
			failingSince = time.Now()
		}
		failures++
		wait := max(said.retryAfter, backOff(failures))
		if ctx.Err() != nil || !said.mayRetry() || time.Since(failingSince)+wait > baton.retryFor {
			return nil, calls, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, calls, err
		}
	}
}

// 0.1 s, twice as long after each failure, at most 2 s, times a random number from 0.5 to 1.
func backOff(failures int) time.Duration {
	wait := min(2.0, 0.1*float64(uint64(1)<<min(failures-1, 10)))
	return time.Duration(wait * (0.5 + rand.Float64()/2) * float64(time.Second))
}

func readCall(ctx context.Context, open opener, started func(*batonv1.Started),
	text func(string)) (*batonv1.Final, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	receive, err := open(ctx)
	if err != nil {
		return nil, err
	}
	for {
		event, err := receive()
		if errors.Is(err, io.EOF) {
			return nil, status.Error(codes.Internal, "the stream ended without a Final")
		}
		if err != nil {
			return nil, err
		}
		if event.GetFinal() != nil {
			return event.GetFinal(), nil
		}
		if event.GetStarted() != nil {
			started(event.GetStarted())
		}
		text(event.GetDelta().GetText())
	}
}

package holdfast_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/holdfast-ai/holdfast"
)

// started is an engine without ports, on a store in a new folder.
func started(c holdfast.Config) (e *holdfast.Engine, stop func()) {
	dir, err := os.MkdirTemp("", "holdfast-example-")
	if err != nil {
		log.Fatal(err)
	}
	c.Embedded, c.Store = true, "sqlite:"+filepath.Join(dir, "holdfast.db")
	if e, err = holdfast.New(c); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	return e, func() {
		if err := e.Stop(context.Background()); err != nil {
			log.Print(err)
		}
		_ = os.RemoveAll(dir)
	}
}

type receipt struct {
	Number int `json:"number"`
}

// A refund that is asked for twice happens once.
func ExampleDo() {
	e, stop := started(holdfast.Config{})
	defer stop()
	refunds := 0
	for range 2 {
		var info holdfast.Info
		r, err := holdfast.Do(context.Background(), e, holdfast.Operation{
			Key:       "refund:order-17",
			Name:      "refund",
			Arguments: map[string]any{"order": 17, "cents": 500},
			Info:      &info,
		}, func(ctx context.Context) (receipt, error) {
			refunds++ // the bank's API, which gets holdfast.AttemptFrom(ctx) as its Idempotency-Key
			return receipt{Number: refunds}, nil
		})
		fmt.Println(r.Number, err, "replayed:", info.Replayed)
	}
	// Output:
	// 1 <nil> replayed: false
	// 1 <nil> replayed: true
}

// Nobody knows whether the bank did it. Nothing is sent again until somebody says.
func ExampleDo_unknown() {
	e, stop := started(holdfast.Config{})
	defer stop()
	refund := holdfast.Operation{Key: "refund:order-18", Name: "refund"}
	lost := func(context.Context) (receipt, error) { return receipt{}, io.ErrUnexpectedEOF }
	again := func(context.Context) (receipt, error) { panic("a second refund") }

	_, err := holdfast.Do(context.Background(), e, refund, lost)
	fmt.Println(errors.Is(err, holdfast.ErrUnknown), errors.Is(err, io.ErrUnexpectedEOF))

	_, err = holdfast.Do(context.Background(), e, refund, again)
	var he *holdfast.Error
	fmt.Println(errors.As(err, &he), he.Code, he.SafeToRetry)
	// Output:
	// true true
	// true holdfast: outcome_unknown after-reconcile
}

// An error that says that nothing happened lets the same operation be done again.
func ExampleNotSent() {
	e, stop := started(holdfast.Config{})
	defer stop()
	email := holdfast.Operation{Key: "welcome:alice", Name: "email"}

	_, err := holdfast.Do(context.Background(), e, email, func(context.Context) (string, error) {
		return "", holdfast.NotSent(errors.New("no connection to the mail server"))
	})
	fmt.Println(errors.Is(err, holdfast.ErrFailed))

	id, err := holdfast.Do(context.Background(), e, email, func(context.Context) (string, error) { return "message-1", nil })
	fmt.Println(id, err)
	// Output:
	// true
	// message-1 <nil>
}

// An order and its confirmation, in one transaction of the shop's own database.
func ExampleDoTx() {
	e, stop := started(holdfast.Config{})
	defer stop()
	dir, _ := os.MkdirTemp("", "shop-")
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	if err := holdfast.MigrateOutbox(ctx, db); err != nil {
		log.Fatal(err)
	}

	sent := make(chan string)
	e.Handle("confirm", func(_ context.Context, arguments json.RawMessage) (any, error) {
		sent <- string(arguments)
		return nil, nil
	})
	outbox, err := e.Outbox(db, holdfast.OutboxConfig{})
	if err != nil {
		log.Fatal(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	// … INSERT INTO orders …
	if _, err := holdfast.DoTx(ctx, tx, holdfast.Operation{Name: "confirm", Arguments: map[string]int{"order": 17}}); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	outbox.Notify() // or wait for the next look, 200 ms at most
	fmt.Println(<-sent)
	// Output:
	// {"order":17}
}

// An SDK's HTTP client, with nothing changed but its transport.
func ExampleEngine_Transport() {
	calls := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c%d","object":"chat.completion","created":1,"model":"gpt-5","choices":[{"index":0,"finish_reason":"stop",`+
			`"message":{"role":"assistant","content":"Answer %[1]d"}}]}`, calls)
	}))
	defer provider.Close()
	e, stop := started(holdfast.Config{Upstreams: []string{"openai=" + provider.URL + "/v1"}})
	defer stop()

	// option.WithHTTPClient of openai-go and anthropic-sdk-go, ClientConfig.HTTPClient of genai take such a client.
	client := &http.Client{Transport: e.Transport(nil)}
	for range 2 {
		req, _ := http.NewRequest("POST", provider.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"gpt-5","messages":[{"role":"user","content":"Thank the customer."}]}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "thanks:order-17")
		resp, err := client.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			log.Fatal(err)
		}
		_ = resp.Body.Close()
		fmt.Println(answer.Choices[0].Message.Content, "replayed:", resp.Header.Get("Idempotency-Replayed") == "true")
	}
	// Output:
	// Answer 1 replayed: false
	// Answer 1 replayed: true
}

// Command library is a small shop with Holdfast inside: no gateway, no port. It asks a model through the official SDK,
// refunds an order through a function of its own, and confirms another with the transaction that records it.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/holdfast-ai/holdfast"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "shop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config := holdfast.Config{Embedded: true, Store: "sqlite:" + filepath.Join(dir, "holdfast.db")}
	if base := os.Getenv("OPENAI_BASE_URL"); base != "" {
		config.Upstreams = []string{"openai=" + base}
	}
	engine, err := holdfast.New(config)
	if err != nil {
		return err
	}
	if err := engine.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Stop(ctx)) }()

	for range 2 {
		if err := thank(ctx, engine); err != nil {
			return err
		}
		if err := refund(ctx, engine); err != nil {
			return err
		}
	}
	return order(ctx, engine, filepath.Join(dir, "shop.db"))
}

// thank streams an answer by the official client, which knows of nothing.
func thank(ctx context.Context, engine *holdfast.Engine) error {
	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: engine.Transport(nil)}))
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model:    "gpt-5",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Thank the customer for order 17.")},
	}, option.WithHeader("Idempotency-Key", "thanks:17"))
	defer stream.Close()
	fmt.Print("thanks: ")
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			fmt.Print(choice.Delta.Content)
		}
	}
	fmt.Println()
	return stream.Err()
}

// refund is a function that must not happen twice.
func refund(ctx context.Context, engine *holdfast.Engine) error {
	var info holdfast.Info
	number, err := holdfast.Do(ctx, engine, holdfast.Operation{
		Key: "refund:17", Name: "refund", Arguments: map[string]int{"order": 17, "cents": 500}, Info: &info,
	}, func(ctx context.Context) (string, error) {
		attempt, _ := holdfast.AttemptFrom(ctx)
		return "R-1 of " + attempt.Intent, nil // the bank's API, with attempt.Key as its Idempotency-Key
	})
	if errors.Is(err, holdfast.ErrUnknown) {
		return fmt.Errorf("a person has to look at the bank's statement: %w", err)
	}
	fmt.Println("refund:", number, "replayed:", info.Replayed)
	return err
}

// order writes an order and what follows from it in one transaction.
func order(ctx context.Context, engine *holdfast.Engine, file string) error {
	db, err := sql.Open("sqlite3", "file:"+filepath.ToSlash(file))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`); err != nil {
		return err
	}
	if err := holdfast.MigrateOutbox(ctx, db); err != nil {
		return err
	}
	confirmed := make(chan string, 1)
	engine.Handle("confirm", func(_ context.Context, arguments json.RawMessage) (any, error) {
		confirmed <- string(arguments)
		return "sent", nil
	})
	outbox, err := engine.Outbox(db, holdfast.OutboxConfig{})
	if err != nil {
		return err
	}
	if err := write(ctx, db, 18); err != nil {
		return err
	}
	outbox.Notify()
	fmt.Println("confirmed:", <-confirmed)
	return nil
}

func write(ctx context.Context, db *sql.DB, id int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (?)`, id); err != nil {
		return err
	}
	if _, err := holdfast.DoTx(ctx, tx, holdfast.Operation{Name: "confirm", Arguments: map[string]int{"order": id}}); err != nil {
		return err
	}
	return tx.Commit()
}

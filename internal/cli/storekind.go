package cli

import (
	"context"
	"io"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/postgres"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// storeReader is a store that is opened to read beside whatever process works on it.
type storeReader interface {
	ledger.Ledger
	Env(ctx context.Context) (string, error)
}

// String names the store, without its password.
func (s foundStore) String() string {
	if s.url != "" {
		return policy.NewDSN(s.url).String()
	}
	return s.path
}

func (s foundStore) read(ctx context.Context) (storeReader, error) {
	if s.url != "" {
		return postgres.OpenReadOnly(ctx, s.url)
	}
	return sqlite.OpenReadOnly(ctx, s.path)
}

func (s foundStore) verify(ctx context.Context) ([]sqlite.Violation, error) {
	if s.url != "" {
		return postgres.Verify(ctx, s.url)
	}
	return sqlite.Verify(ctx, s.path)
}

func (s foundStore) export(ctx context.Context, to io.Writer) error {
	if s.url != "" {
		return postgres.Export(ctx, s.url, to)
	}
	return sqlite.Export(ctx, s.path, to)
}

func (s foundStore) compact(ctx context.Context) (before, after int64, err error) {
	if s.url != "" {
		return postgres.Compact(ctx, s.url)
	}
	return sqlite.Compact(ctx, s.path)
}

func (s foundStore) migrate(ctx context.Context) (from, to int64, err error) {
	if s.url != "" {
		return postgres.Migrate(ctx, postgres.Config{URL: s.url, Env: s.stamp()})
	}
	return sqlite.Migrate(ctx, sqlite.Config{Path: s.path, Env: s.stamp()})
}

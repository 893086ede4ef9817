package sqlite

import (
	"context"
	"io"

	"github.com/holdfast-ai/holdfast/ledger/internal/export"
)

// Export writes every intent of the store at path, newest first, as a line of JSON with its history: no bodies,
// and none of the store's secrets. It reads beside a running engine.
func Export(ctx context.Context, path string, to io.Writer) error {
	l, err := OpenReadOnly(ctx, path)
	if err != nil {
		return err
	}
	defer l.Close()
	return export.Write(ctx, l, to)
}

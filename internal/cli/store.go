package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// storeCommand is `holdfast store`.
func storeCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "store",
		Short: "The store's own upkeep: verify, export, compact, migrate",
		Long: `The store's own upkeep. verify and export read beside a running gateway; compact needs it stopped, and migrate too
where the store is a file.

The store is that of --config or --store, else of holdfast.yaml in the current folder, else ./holdfast.db. Where operations
are spread over several databases, each is taken in turn, and --json prints one line for each.`,
		Example: "  holdfast store verify\n  holdfast store export --out operations.jsonl",
	}, verifyCommand(), exportCommand(), compactCommand(), migrateCommand())
}

func verifyCommand() *cobra.Command {
	var where storeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Re-check every invariant of the log; exit 1 with the rows that break one",
		Long: `Re-check every invariant of the log, beside a running gateway or without one: each intent is open or settled and not
both, its history leads to its state step by step, upstream calls are logged attempts, calls beyond the first are
covered by definite failures or marked possibly billed, claims belong to whom they should, bodies are whole.

Each row that breaks one is a line RULE: INTENT: DETAIL, and the exit status is 1.`,
		Example: "  holdfast store verify\n  holdfast store verify --store sqlite:/var/lib/holdfast/holdfast.db --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.each(func(s foundStore) error {
				if err := s.mustExist(); err != nil {
					return err
				}
				found, err := s.verify(cmd.Context())
				if err != nil {
					return fmt.Errorf("store verify: %w", err)
				}
				return reportViolations(cmd.OutOrStdout(), s.String(), found, asJSON)
			})
		},
	}
	where.add(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func reportViolations(out io.Writer, path string, found []sqlite.Violation, asJSON bool) error {
	if asJSON {
		if found == nil {
			found = []sqlite.Violation{}
		}
		if err := writeJSON(out, found); err != nil {
			return err
		}
	} else {
		for _, v := range found {
			if _, err := fmt.Fprintln(out, clean(v.String(), 0)); err != nil {
				return err
			}
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("store verify: %s of %s %s an invariant; keep a copy of it as it is before anything else writes to it",
			plural(len(found), "row"), path, verb(len(found), "breaks", "break"))
	}
	if !asJSON {
		_, err := fmt.Fprintf(out, "%s: every invariant holds\n", path)
		return err
	}
	return nil
}

func exportCommand() *cobra.Command {
	var where storeFlags
	var file string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write every operation with its history as a line of JSON",
		Long: `Write every operation with its history as a line of JSON, newest first, beside a running gateway or without one.
Bodies and the store's own secrets are not part of it.`,
		Example: "  holdfast store export | jq 'select(.outcome == \"unknown\")'\n  holdfast store export --out operations.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stores, err := where.all()
			for _, s := range stores {
				err = errors.Join(err, s.mustExist())
			}
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := exportStores(ctx, stores, file, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return fmt.Errorf("store export: %w", err)
			}
			return nil
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&file, "out", "", "write to this file, which appears when it is complete; default standard output")
	return cmd
}

// exportStores writes to out, or to a file that is never seen unfinished.
func exportStores(ctx context.Context, stores []foundStore, file string, out, report io.Writer) error {
	if file == "" {
		p := newProgress(out, report)
		defer p.done()
		return exportAll(ctx, stores, p)
	}
	return replaceFile(file, func(f io.Writer) error {
		p := newProgress(f, report)
		defer p.done()
		return exportAll(ctx, stores, p)
	})
}

func exportAll(ctx context.Context, stores []foundStore, to io.Writer) error {
	for _, s := range stores {
		if err := s.export(ctx, to); err != nil {
			return err
		}
	}
	return nil
}

func compactCommand() *cobra.Command {
	var where storeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Rewrite the store without its free pages; the gateway must be stopped",
		Long: `Rewrite the store without its free pages. Every gateway on it must be stopped, and the disk needs room for a second copy.
Retention goes on without it: freed pages are used again.`,
		Example: "  holdfast store compact --config /etc/holdfast/holdfast.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.each(func(s foundStore) error {
				if err := s.mustExist(); err != nil {
					return err
				}
				before, after, err := s.compact(cmd.Context())
				if err != nil {
					return stopFirst("compact", err)
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), map[string]any{"store": s.String(), "before_bytes": before, "after_bytes": after})
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, was %s\n", s, size(after), size(before))
				return err
			})
		},
	}
	where.add(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func migrateCommand() *cobra.Command {
	var where storeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the store's schema to this program's version; makes a store where there is none",
		Long: `Bring the store's schema to this program's version. serve does the same when it starts; this is for those who want the
step by itself: with the gateway stopped where the store is a file, before the new version starts where it is Postgres.
Where there is no store yet one is made.`,
		Example: "  holdfast store migrate --config /etc/holdfast/holdfast.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.each(func(s foundStore) error {
				from, to, err := s.migrate(cmd.Context())
				if err != nil {
					return stopFirst("migrate", err)
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), map[string]any{"store": s.String(), "from": from, "to": to})
				}
				if from == to {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: version %d, nothing to do\n", s, to)
				} else {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: version %d, was %d\n", s, to, from)
				}
				return err
			})
		},
	}
	where.add(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// stopFirst says for a store that is in use what this command wants.
func stopFirst(name string, err error) error {
	if errors.Is(err, ledger.ErrLocked) {
		return fmt.Errorf("store %s needs the store for itself: stop `holdfast serve` on it first (%w)", name, err)
	}
	return fmt.Errorf("store %s: %w", name, err)
}

// writeJSON writes v as one line.
func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func jsonFlag(cmd *cobra.Command, to *bool) { cmd.Flags().BoolVar(to, "json", false, "print JSON") }

package cli

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/ledger"
)

// replayPage is how many operations are held at a time.
const replayPage = 1000

// replaySource is a log to replay: a running gateway's, or a store's.
type replaySource interface {
	// page is the operations before an id, newest first, without their history; fewer than replayPage end the log.
	page(ctx context.Context, before string) ([]admin.Intent, error)
	// history fills in an operation's. errNoSuch says that it was swept meanwhile.
	history(ctx context.Context, v *admin.Intent) error
	Close() error
}

// open is the log that the flags name.
func (f *replayFlags) open(ctx context.Context, since time.Time) (replaySource, error) {
	if f.admin != "" {
		api, err := dialAdmin(f.admin)
		if err != nil {
			return nil, err
		}
		q := url.Values{"all": {"1"}, "limit": {strconv.Itoa(replayPage)}, "newer_than": {since.UTC().Format(time.RFC3339)}}
		if f.workflow != "" {
			q.Set("workflow", f.workflow)
		}
		return &replayGateway{api, q}, nil
	}
	found, err := f.store.existing()
	if err != nil {
		return nil, err
	}
	l, err := found.read(ctx)
	if err != nil {
		return nil, err
	}
	return &replayStore{l, ledger.Filter{Workflow: f.workflow, NewerThan: since, Limit: replayPage}}, nil
}

// replayGateway reads over the admin API.
type replayGateway struct {
	api *adminAPI
	q   url.Values
}

func (s *replayGateway) page(ctx context.Context, before string) ([]admin.Intent, error) {
	if before != "" {
		s.q.Set("before", before)
	}
	return s.api.list(ctx, s.q)
}

func (s *replayGateway) history(ctx context.Context, v *admin.Intent) error {
	whole, err := s.api.intent(ctx, v.ID)
	if err == nil {
		*v = whole
	}
	return err
}

func (s *replayGateway) Close() error { return nil }

// replayStore reads a store beside the gateway that may run on it.
type replayStore struct {
	ledger.Ledger
	filter ledger.Filter
}

func (s *replayStore) page(ctx context.Context, before string) ([]admin.Intent, error) {
	s.filter.Before = before
	records, err := s.List(ctx, s.filter)
	views := make([]admin.Intent, len(records))
	for i, r := range records {
		views[i] = admin.View(r)
	}
	return views, err
}

func (s *replayStore) history(ctx context.Context, v *admin.Intent) (err error) {
	if v.History, err = s.History(ctx, v.ID); errors.Is(err, ledger.ErrNotFound) {
		return errNoSuch
	}
	return err
}

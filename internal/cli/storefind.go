package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// configHere is the configuration that stands in the current folder.
const configHere = "holdfast.yaml"

// storeFlags say which store a command works on.
type storeFlags struct{ config, store string }

func (f *storeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "", "holdfast.yaml that names the store")
	cmd.Flags().StringVar(&f.store, "store", "", "the store itself, sqlite:FILE, FILE or postgres://USER@HOST/DB")
	cmd.MarkFlagsMutuallyExclusive("config", "store")
}

// foundStore is a store, in a file or in Postgres, and the env that its configuration says; "" without a configuration.
type foundStore struct{ path, url, env string }

// find is all for what works on one store.
func (f *storeFlags) find() (foundStore, error) {
	all, err := f.all()
	switch {
	case err != nil:
		return foundStore{}, err
	case len(all) > 1:
		return foundStore{}, fmt.Errorf("the configuration spreads operations over %d databases, and this reads one: ask a running gateway, or name one of them with --store", len(all))
	}
	return all[0], nil
}

// all takes --store, --config, holdfast.yaml in the current folder, or the default store, in that order. Where operations are spread over
// several databases, it is all of them.
func (f *storeFlags) all() ([]foundStore, error) {
	if f.store != "" {
		s, err := storeAt(f.store)
		return []foundStore{s}, err
	}
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	var out []foundStore
	for _, dsn := range cfg.Store {
		s, err := storeAt(dsn.Reveal())
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", dsn, err)
		}
		s.env = cfg.Env
		out = append(out, s)
	}
	return out, nil
}

// each does something with one store after the other, those behind a failure too.
func (f *storeFlags) each(do func(foundStore) error) error {
	all, err := f.all()
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		if err := do(s); err != nil && len(all) > 1 {
			errs = append(errs, fmt.Errorf("%s: %w", s, err))
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (f *storeFlags) load() (*policy.Config, error) {
	file := f.config
	if file == "" {
		if _, err := os.Stat(configHere); errors.Is(err, os.ErrNotExist) {
			return policy.Default(os.LookupEnv), nil
		}
		file = configHere
	}
	return loadConfig(file)
}

// loadConfig reads a configuration, "" being the defaults, as serve would.
func loadConfig(file string) (*policy.Config, error) {
	if file == "" {
		return policy.Default(os.LookupEnv), nil
	}
	cfg, faults := policy.Load(file, os.LookupEnv)
	if cfg != nil {
		return cfg, nil
	}
	var lines strings.Builder
	for _, fault := range faults {
		lines.WriteString("\n" + fault.String())
	}
	return nil, fmt.Errorf("the configuration is refused:%s", lines.String())
}

var errNoMemory = errors.New("a store is a file, which :memory: and file: addresses are not; write sqlite:FILE or a file name")

var errNotSQLite = errors.New("this takes a store in a file, sqlite:FILE or FILE; of a log in Postgres ask one of its replicas, with --admin")

// storePath is the file of sqlite:FILE, or of FILE alone.
func storePath(dsn string) (string, error) {
	scheme, rest, ok := strings.Cut(dsn, ":")
	switch {
	case ok && strings.EqualFold(scheme, "sqlite"):
		dsn = strings.TrimPrefix(rest, "//")
	case ok && strings.HasPrefix(rest, "//"):
		return "", errNotSQLite
	}
	switch {
	case strings.Contains(strings.ToLower(dsn), ":memory:") || strings.HasPrefix(dsn, "file:"):
		return "", &usageError{errNoMemory}
	case dsn == "":
		return "", &usageError{errNotSQLite}
	}
	return dsn, nil
}

// storeAt is the store at an address.
func storeAt(dsn string) (foundStore, error) {
	switch policy.NewDSN(dsn).Scheme() {
	case "postgres", "postgresql":
		return foundStore{url: dsn}, nil
	}
	path, err := storePath(dsn)
	if err == errNotSQLite { // of another scheme
		err = errNoStore
	}
	return foundStore{path: path}, err
}

var errNoStore = errors.New("a log is kept in SQLite or in Postgres; write sqlite:FILE, a file name, or postgres://USER@HOST/DB")

// stamp is the env for a store that is made now; for one that exists and no configuration it is "", which checks
// nothing.
func (s foundStore) stamp() string {
	if s.env == "" && s.url == "" && mustExist(s.path) != nil {
		return policy.Default(os.LookupEnv).Env
	}
	return s.env
}

// existing is find for a command that makes no store.
func (f *storeFlags) existing() (foundStore, error) {
	s, err := f.find()
	if err == nil {
		err = s.mustExist()
	}
	return s, err
}

// mustExist holds a store's file to be there; a database says so itself.
func (s foundStore) mustExist() error {
	if s.url != "" {
		return nil
	}
	return mustExist(s.path)
}

// mustExist keeps a misspelt name from becoming an empty store.
func mustExist(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no store at %s; name it with --store FILE or --config FILE", path)
	case err != nil:
		return fmt.Errorf("the store cannot be read: %w", err)
	case info.IsDir():
		return fmt.Errorf("%s is a folder; name the store's file", path)
	}
	return nil
}

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
	cmd.Flags().StringVar(&f.store, "store", "", "the store itself, sqlite:FILE or FILE")
	cmd.MarkFlagsMutuallyExclusive("config", "store")
}

// foundStore is a store's file, and the env that its configuration says; "" without a configuration.
type foundStore struct{ path, env string }

// find takes --store, --config, holdfast.yaml in the current folder, or the default store, in that order.
func (f *storeFlags) find() (foundStore, error) {
	if f.store != "" {
		path, err := storePath(f.store)
		return foundStore{path: path}, err
	}
	cfg, err := f.load()
	if err != nil {
		return foundStore{}, err
	}
	path, err := storePath(cfg.Store[0].Reveal())
	if err != nil {
		return foundStore{}, fmt.Errorf("store %s: %w", cfg.Store[0], err)
	}
	return foundStore{path: path, env: cfg.Env}, nil
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

var errNotSQLite = errors.New("this version keeps its log in SQLite; write sqlite:FILE or a file name")

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

// stamp is the env for a store that is made now; for one that exists and no configuration it is "", which checks
// nothing.
func (s foundStore) stamp() string {
	if s.env == "" && mustExist(s.path) != nil {
		return policy.Default(os.LookupEnv).Env
	}
	return s.env
}

// existing is find for a command that makes no store.
func (f *storeFlags) existing() (foundStore, error) {
	s, err := f.find()
	if err == nil {
		err = mustExist(s.path)
	}
	return s, err
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

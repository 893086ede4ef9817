// Package redis keeps shared state in Redis or Valkey, alone or as a cluster: all keys of an environment have one hash tag, so that they
// stand on one node and each step is one script there.
package redis

import (
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-ai/holdfast/internal/shared"
)

// Config says where the store is.
type Config struct {
	// URL is redis://, rediss:// (TLS), valkey:// or valkeys://, with user:password@host:port[,host:port…]/database.
	URL string
	// Env is a part of every key: environments never meet.
	Env string
	// DialTimeout bounds a connection's making, and a write that does not go on; 2 s.
	DialTimeout time.Duration
}

//go:embed changed.lua
var changedLua string

//go:embed swap.lua
var swapLua string

//go:embed lease.lua
var leaseLua string

//go:embed spend.lua
var spendLua string

var (
	changed = rueidis.NewLuaScript(changedLua)
	swap    = rueidis.NewLuaScript(swapLua)
	lease   = rueidis.NewLuaScript(leaseLua)
	spend   = rueidis.NewLuaScript(spendLua)
)

// schemes are those of an address, and whether they mean TLS.
var schemes = map[string]bool{"redis": false, "rediss": true, "valkey": false, "valkeys": true}

// Check says what is wrong with an address.
func Check(address string) error {
	_, err := options(Config{URL: address})
	return err
}

func options(c Config) (rueidis.ClientOption, error) {
	o := rueidis.ClientOption{DisableCache: true, DisableRetry: true, ClientName: "holdfast", ClientSetInfo: rueidis.DisableClientSetInfo,
		// A step's order is that of one connection.
		PipelineMultiplex: -1, RingScaleEachConn: 10, ConnWriteTimeout: c.DialTimeout, Dialer: net.Dialer{Timeout: c.DialTimeout}}
	u, err := url.Parse(c.URL)
	if err != nil {
		return o, errors.New("it is no address; write redis://HOST:PORT/DATABASE")
	}
	secure, known := schemes[u.Scheme]
	if !known {
		return o, fmt.Errorf("%q is no scheme of this store; write redis://, rediss://, valkey:// or valkeys://", u.Scheme)
	}
	if len(u.Query()) > 0 {
		return o, fmt.Errorf("the parameter %q of its address is not known; it has none", slices.Sorted(mapKeys(u.Query()))[0])
	}
	if o.SelectDB, err = database(u.Path); err != nil {
		return o, err
	}
	for _, host := range strings.Split(u.Host, ",") {
		if host == "" {
			return o, errors.New("it names no host; write redis://HOST:PORT/DATABASE")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		o.InitAddress = append(o.InitAddress, host)
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if secure {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o, nil
}

func mapKeys(v url.Values) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range v {
			if !yield(k) {
				return
			}
		}
	}
}

func database(path string) (int, error) {
	path = strings.Trim(path, "/")
	if path == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("its database is %q; write a number", path)
	}
	return n, nil
}

// Driver is a connection. It implements shared.Driver.
type Driver struct {
	client rueidis.Client
	prefix string
}

// Open connects and asks for an answer.
func Open(ctx context.Context, c Config) (*Driver, error) {
	if c.DialTimeout <= 0 {
		c.DialTimeout = 2 * time.Second
	}
	o, err := options(c)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	d := &Driver{client: client, prefix: "holdfast:{" + tag(c.Env) + "}:"}
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		client.Close()
		return nil, fmt.Errorf("redis: %w", err)
	}
	return d, nil
}

// tag is an environment's name without what ends a hash tag.
func tag(env string) string { return "env-" + url.QueryEscape(env) }

// Close implements shared.Driver.
func (d *Driver) Close() { d.client.Close() }

func (d *Driver) run(ctx context.Context, script *rueidis.Lua, keys []string, args ...string) ([]rueidis.RedisMessage, error) {
	out, err := script.Exec(ctx, d.client, keys, args).ToArray()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return out, nil
}

// Changed implements shared.Driver.
func (d *Driver) Changed(ctx context.Context, since time.Time) ([]shared.Register, time.Time, error) {
	from := "0"
	if !since.IsZero() {
		from = strconv.FormatInt(since.UnixMicro(), 10)
	}
	out, err := d.run(ctx, changed, []string{d.prefix + "changes"}, from, d.prefix+"register/")
	if err != nil || len(out) == 0 {
		return nil, time.Time{}, errors.Join(err, empty(out))
	}
	now, err := number(out[0])
	if err != nil {
		return nil, time.Time{}, err
	}
	var all []shared.Register
	for i := 1; i+2 < len(out); i += 3 {
		r, err := register(out[i : i+3])
		if err != nil {
			return nil, time.Time{}, err
		}
		all = append(all, r)
	}
	return all, time.UnixMicro(now), nil
}

// Swap implements shared.Driver.
func (d *Driver) Swap(ctx context.Context, next shared.Register, ttl time.Duration) (shared.Register, bool, error) {
	out, err := d.run(ctx, swap, []string{d.prefix + "register/" + next.Key, d.prefix + "changes"}, next.Key,
		strconv.FormatUint(next.Version, 10), string(next.Value), strconv.FormatInt(ttl.Milliseconds(), 10))
	if err != nil || len(out) < 4 {
		return shared.Register{}, false, errors.Join(err, empty(out))
	}
	ok, err := number(out[0])
	if err != nil {
		return shared.Register{}, false, err
	}
	r, err := register(out[1:4])
	return r, ok == 1, err
}

// Lease implements shared.Driver.
func (d *Driver) Lease(ctx context.Context, key, holder string, c shared.Claim) (shared.Grant, error) {
	var args []string
	for _, n := range []int64{int64(c.Seq), int64(c.Hold.All), int64(c.Hold.Batch), int64(c.Want.All), int64(c.Want.Batch), int64(c.Limit.All),
		int64(c.Limit.Batch), c.TTL.Milliseconds(), c.UnmetTTL.Milliseconds()} {
		args = append(args, strconv.FormatInt(n, 10))
	}
	out, err := d.run(ctx, lease, []string{d.prefix + key}, append([]string{holder}, args...)...)
	if err != nil || len(out) < 5 {
		return shared.Grant{}, errors.Join(err, empty(out))
	}
	var n [5]int64
	for i := range n {
		if n[i], err = number(out[i]); err != nil {
			return shared.Grant{}, err
		}
	}
	if n[0] == 0 {
		return shared.Grant{}, shared.ErrStale
	}
	return shared.Grant{Slots: shared.Slots{All: int(n[1]), Batch: int(n[2])}, Holders: int(n[3]), Wanted: n[4] == 1}, nil
}

// Spend implements shared.Driver.
func (d *Driver) Spend(ctx context.Context, key string, s shared.Spending) (int64, bool, error) {
	out, err := d.run(ctx, spend, []string{d.prefix + key}, strconv.FormatInt(s.Amount, 10), strconv.FormatInt(s.Floor, 10),
		strconv.FormatInt(s.Limit, 10), strconv.FormatInt(s.TTL.Milliseconds(), 10))
	if err != nil || len(out) < 2 {
		return 0, false, errors.Join(err, empty(out))
	}
	ok, err := number(out[0])
	if err != nil {
		return 0, false, err
	}
	total, err := number(out[1])
	return total, ok == 1, err
}

// empty is the fault of an answer that has less in it than a script of ours gives.
func empty(out []rueidis.RedisMessage) error {
	if out == nil {
		return nil
	}
	return fmt.Errorf("redis: an answer of %d parts, which none of our scripts gives", len(out))
}

// number reads an integer that came as one or as a text: scripts give large ones as texts, since their numbers are floats.
func number(m rueidis.RedisMessage) (int64, error) {
	if n, err := m.ToInt64(); err == nil {
		return n, nil
	}
	text, err := m.ToString()
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	return n, nil
}

// register reads key, version and value.
func register(m []rueidis.RedisMessage) (shared.Register, error) {
	key, err := m[0].ToString()
	if err != nil {
		return shared.Register{}, fmt.Errorf("redis: %w", err)
	}
	version, err := number(m[1])
	if err != nil {
		return shared.Register{}, err
	}
	value, err := m[2].AsBytes()
	if err != nil {
		return shared.Register{}, fmt.Errorf("redis: %w", err)
	}
	if version == 0 {
		return shared.Register{Key: key}, nil
	}
	return shared.Register{Key: key, Version: uint64(version), Value: value}, nil
}

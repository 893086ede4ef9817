package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
)

// certificate is one for loopback that vouches for itself, with its key, as PEM.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's server"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// TestTLS: sslmode is kept on every connection, and a server that cannot show who it is gets nothing.
func TestTLS(t *testing.T) {
	server := pgtest.Start(t)
	cert, key := certificate(t)
	server.Encrypt(t, cert, key)
	another, _ := certificate(t)
	dir := t.TempDir()
	as := func(name string, ca []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, ca, 0o600); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(server.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {path}}.Encode()
		return u.String()
	}
	l := open(t, Config{URL: as("its", cert)})
	defer l.Close()
	stop := l.Notices(func(ledger.Notice) {})
	defer stop()
	if err := commit(l, newIntent(l, "key")); err != nil {
		t.Fatal(err)
	}
	var plain int
	if err := l.read.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
		WHERE a.application_name = 'holdfast' AND NOT s.ssl`).Scan(&plain); err != nil || plain > 0 {
		t.Errorf("%d connections are not encrypted, %v", plain, err)
	}
	_, err := Open(t.Context(), Config{URL: as("another's", another)})
	if !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("a server that nobody vouches for: %v, want ErrUnavailable", err)
	}
	if err != nil && strings.Contains(err.Error(), server.Password()) {
		t.Errorf("the password is in the message: %v", err)
	}
}

// TestSchemaIsHeldTo: a program that is older than the store does not touch it, and none migrates what it may only read.
func TestSchemaIsHeldTo(t *testing.T) {
	store := emptyStore(t)
	if _, err := OpenReadOnly(t.Context(), store); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("reading an empty database: %v, want ErrUnavailable", err)
	}
	l := open(t, Config{URL: store})
	if err := l.exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []Config{{URL: store}, {URL: store, ReadOnly: true}} {
		if _, err := Open(t.Context(), cfg); !errors.Is(err, ledger.ErrNewerSchema) {
			t.Errorf("a newer store: %v, want ErrNewerSchema", err)
		}
	}
}

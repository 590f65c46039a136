package backend_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

func TestRedisTLSWithPassword(t *testing.T) {
	backendtest.Need(t, "redis-server")
	cert, key := selfSigned(t)
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	server, err := local.StartRedis(t.Context(),
		"--tls-port", fmt.Sprint(port),
		"--tls-cert-file", cert,
		"--tls-key-file", key,
		"--tls-auth-clients", "no",
		"--requirepass", "p@ss/secret",
	)
	if err != nil && strings.Contains(err.Error(), "Bad directive") {
		t.Skip("this redis-server is built without TLS")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url := fmt.Sprintf("rediss://:p%%40ss%%2Fsecret@127.0.0.1:%d/2?skip_verify=true", port)
	rdb := backendtest.DialRedis(t, url)
	checkCounts(t, rdb)
	checkRedisName(t, rdb, url, fmt.Sprintf("at 127.0.0.1:%d", port))

	for name, url := range map[string]string{
		"unknown certificate": strings.TrimSuffix(url, "?skip_verify=true"),
		"wrong password":      strings.Replace(url, "p%40ss", "other", 1),
	} {
		_, err := backend.DialRedis(t.Context(), url, 0)
		if !errors.Is(err, backend.ErrUnreachable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want ErrUnreachable without the password", name, err)
		}
	}
}

// selfSigned creates a self-signed certificate for 127.0.0.1.
func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "CERTIFICATE", cert), writePEM(t, "PRIVATE KEY", der)
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

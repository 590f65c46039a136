package backend_test

import (
	"errors"
	"strings"
	"testing"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
)

func TestRedisTLSWithPassword(t *testing.T) {
	url := backendtest.SecuredRedis(t)
	rdb := backendtest.DialRedis(t, url)
	checkCounts(t, rdb)
	checkRedisName(t, rdb, url, "at 127.0.0.1:")

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

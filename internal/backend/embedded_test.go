package backend_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
)

// The embedded Redis refuses clients without its password, because every user of the machine can dial it.
func TestEmbeddedRedisLetsNobodyInWithoutItsPassword(t *testing.T) {
	url := backendtest.Redis(t, "embedded")
	_, addr, found := strings.Cut(url, "@")
	if !found {
		t.Fatal("the URL has no password")
	}
	for _, password := range []string{"", "wrong"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr, Password: password, DisableIdentity: true})
		defer rdb.Close()
		if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err == nil {
			t.Errorf("a client with the password %q is let in", password)
		}
	}
	if err := backendtest.DialRedis(t, url).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

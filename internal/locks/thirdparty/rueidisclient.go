package thirdparty

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// errClient means that the go-redis client is of a type whose servers cannot be determined.
var errClient = errors.New("rueidislock: neither one server, nor a cluster, nor what sentinels name")

// connectTo sets options in o so that rueidis connects to the servers of the go-redis client, as
// the same user. It does not change other options, such as timeouts.
func connectTo(rdb redis.UniversalClient, o *rueidis.ClientOption) error {
	switch c := rdb.(type) {
	case *redis.Client:
		from := c.Options()
		o.InitAddress, o.ForceSingleClient, o.AlwaysRESP2 = []string{from.Addr}, true, from.Protocol == 2
		o.Username, o.Password, o.SelectDB, o.ClientName = from.Username, from.Password, from.DB, from.ClientName
		// The dialer of the go-redis client uses the client's TLS settings. If the client uses sentinels,
		// it dials the current master.
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return from.Dialer(ctx, from.Network, addr)
		}
		return nil
	case *redis.ClusterClient:
		from := c.Options()
		o.InitAddress, o.TLSConfig, o.AlwaysRESP2 = from.Addrs, from.TLSConfig, from.Protocol == 2
		o.Username, o.Password, o.ClientName = from.Username, from.Password, from.ClientName
		return nil
	}
	return fmt.Errorf("%w: %T", errClient, rdb)
}

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

// errClient says that the client's servers are not known.
var errClient = errors.New("rueidislock: neither one server, nor a cluster, nor what sentinels name")

// rueidisOptions returns options that connect rueidis to the servers of the go-redis
// client, as the same user. Timeouts are rueidis' own.
func rueidisOptions(rdb redis.UniversalClient) (rueidis.ClientOption, error) {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		return rueidis.ClientOption{
			InitAddress: []string{o.Addr}, ForceSingleClient: true,
			Username: o.Username, Password: o.Password, SelectDB: o.DB, ClientName: o.ClientName,
			AlwaysRESP2: o.Protocol == 2,
			// The go-redis client's own dialer: with its TLS, and for a client of
			// sentinels, to the current master.
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return o.Dialer(ctx, o.Network, addr)
			},
		}, nil
	case *redis.ClusterClient:
		o := c.Options()
		return rueidis.ClientOption{
			InitAddress: o.Addrs,
			Username:    o.Username, Password: o.Password, ClientName: o.ClientName, TLSConfig: o.TLSConfig,
			AlwaysRESP2: o.Protocol == 2,
		}, nil
	}
	return rueidis.ClientOption{}, fmt.Errorf("%w: %T", errClient, rdb)
}

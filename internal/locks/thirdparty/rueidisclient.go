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

// errClient says that it is not known where a client goes.
var errClient = errors.New("rueidislock: neither one server, nor a cluster, nor what sentinels name")

// rueidisOptions has rueidis go where the go-redis client goes, as the same
// user. Timeouts are rueidis' own.
func rueidisOptions(rdb redis.UniversalClient) (rueidis.ClientOption, error) {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		return rueidis.ClientOption{
			InitAddress: []string{o.Addr}, ForceSingleClient: true,
			Username: o.Username, Password: o.Password, SelectDB: o.DB, ClientName: o.ClientName,
			AlwaysRESP2: o.Protocol == 2,
			// The go-redis client's own way there: with its TLS, and of a client
			// that has asked sentinels to the master of that moment.
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

package backend

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisSpecs lists the values that -redis accepts. It is part of every error about a value.
const redisSpecs = "want embedded, local, local:cluster, host:port, " +
	"redis://[user:password@]host:port[/db] (rediss:// for TLS, several comma-separated addresses for a cluster) " +
	"or redis+sentinel://host:port,…/master[/db]"

var errTwoURLs = errors.New("several addresses share one scheme, as in redis://a:7000,b:7001")

// parseRedisURL parses the URL of one server, a cluster (IsClusterMode) or a set of sentinels
// (MasterName) into the settings of its client. Errors wrap ErrSpec and do not repeat the part that
// may contain a password.
func parseRedisURL(spec string) (*redis.UniversalOptions, error) {
	o, err := parseRedis(spec)
	if err != nil {
		return nil, fmt.Errorf("%w for -redis: %w; %s", ErrSpec, err, redisSpecs)
	}
	return o, nil
}

func parseRedis(spec string) (*redis.UniversalOptions, error) {
	scheme, rest, found := strings.Cut(withScheme(spec), "://")
	switch {
	case !found:
		return nil, unknownWord(spec)
	case !slices.Contains([]string{"redis", "rediss", "redis+sentinel", "rediss+sentinel"}, scheme):
		return nil, unknownScheme(scheme)
	case strings.Contains(rest, "://"):
		return nil, errTwoURLs
	}
	authority, tail := cutAuthority(rest)
	if strings.ContainsAny(tail, "@#") {
		return nil, errors.New("write the characters / ? # @ in a password as %2F %3F %23 %40")
	}
	user, addrs, err := splitAuthority(authority) // unlike net/url, it allows several addresses
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(tail)
	if err != nil {
		return nil, errors.New("what follows the addresses is not a URL's path")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("what follows the ? are not parameters")
	}
	scheme, sentinel := strings.CutSuffix(scheme, "+sentinel")
	var master, sentinelUser, sentinelPassword string
	path := u.Path
	if sentinel {
		master, path, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/") // from "/name/db"
		if master == "" {
			return nil, errors.New("the name of the sentinels' master is missing after the addresses")
		}
		path = "/" + path
		sentinelUser, sentinelPassword = query.Get("sentinel_username"), query.Get("sentinel_password")
		query.Del("sentinel_username")
		query.Del("sentinel_password")
	}
	given, err := redisOptions(url.URL{Scheme: scheme, Host: addrs[0], Path: path, RawQuery: query.Encode()}, user)
	if err != nil {
		return nil, err
	}
	o := settingsOf(given)
	o.Addrs, o.IsClusterMode = addrs, !sentinel && len(addrs) > 1
	o.MasterName, o.SentinelUsername, o.SentinelPassword = master, sentinelUser, sentinelPassword
	if o.IsClusterMode && o.DB != 0 {
		return nil, errors.New("a cluster has only database 0")
	}
	return o, nil
}

// redisOptions lets go-redis parse a URL. It does not pass the credentials to go-redis, because the
// errors of go-redis repeat the input.
func redisOptions(u url.URL, user *url.Userinfo) (*redis.Options, error) {
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "redis: "))
	}
	if o.MaxRetries != 0 {
		return nil, errors.New("max_retries cannot be set: a repeated command may lock or count twice")
	}
	if o.TLSConfig != nil {
		// An empty name stands for the host that is dialled. If there are several addresses, that
		// is not always the first host.
		o.TLSConfig.ServerName = ""
	}
	if user != nil {
		o.Username = user.Username()
		o.Password, _ = user.Password()
	}
	return o, nil
}

// withScheme turns one or more host:port into a URL. If later addresses repeat the scheme,
// withScheme removes it from them.
func withScheme(spec string) string {
	scheme, _, _ := strings.Cut(spec, "://")
	if first, others, found := strings.Cut(spec, ","+scheme+"://"); found && !strings.Contains(others, "@") {
		return first + "," + strings.ReplaceAll(others, ","+scheme+"://", ",")
	}
	for addr := range strings.SplitSeq(spec, ",") {
		host, port, err := net.SplitHostPort(addr)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || strings.ContainsAny(host, "@/?#") {
			return spec
		}
	}
	return "redis://" + spec
}

func unknownWord(spec string) error {
	switch {
	case spec == "":
		return errors.New("it is empty")
	case isWord(spec):
		return fmt.Errorf("unknown word %q", spec)
	}
	return errors.New("it has no scheme")
}

func unknownScheme(scheme string) error {
	if isWord(scheme) {
		return fmt.Errorf("unknown scheme %q", scheme)
	}
	return errors.New("unknown scheme")
}

// cutAuthority splits the part after a URL's scheme at the start of the path.
func cutAuthority(rest string) (authority, tail string) {
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[:i], rest[i:]
	}
	return rest, ""
}

// splitAuthority splits user:password@host:port,host:port.
func splitAuthority(authority string) (user *url.Userinfo, addrs []string, err error) {
	hosts := authority
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		hosts = authority[i+1:]
		u, err := url.Parse("redis://" + authority[:i] + "@host")
		if err != nil {
			return nil, nil, errors.New("user and password must be percent-encoded")
		}
		user = u.User
	}
	for i, host := range strings.Split(hosts, ",") {
		addr, err := checkAddr(strings.TrimSpace(host))
		if err != nil {
			return nil, nil, fmt.Errorf("address %d %w", i+1, err)
		}
		addrs = append(addrs, addr)
	}
	return user, addrs, nil
}

// checkAddr requires both a host and a port, because a default port would hide a comma
// that was meant to be a colon.
func checkAddr(s string) (string, error) {
	u, err := url.Parse("redis://" + s)
	if err != nil || u.User != nil || u.Host != s || u.Hostname() == "" {
		return "", errors.New("is not host:port")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return "", errors.New("needs a port from 1 to 65535")
	}
	return s, nil
}

// ErrNotSingle means that the Redis at a URL is not a single server without TLS, so a proxy cannot
// be put between it and its clients.
var ErrNotSingle = errors.New("not a single Redis without TLS")

// SingleAddr returns the host:port in the URL of a single Redis without TLS. Errors wrap ErrSpec
// for a wrong URL, and ErrNotSingle for any other kind of Redis, including the value
// "local:cluster" of -redis. They never contain the password.
func SingleAddr(url string) (string, error) {
	if url == privateCluster { // the cluster has not been started yet
		return "", ErrNotSingle
	}
	o, err := parseRedisURL(url)
	if err != nil {
		return "", err
	}
	if o.IsClusterMode || o.MasterName != "" || o.TLSConfig != nil {
		return "", ErrNotSingle
	}
	return o.Addrs[0], nil
}

// WithAddr returns the URL of a single Redis with addr in place of its host:port. Its errors are
// those of SingleAddr.
func WithAddr(url, addr string) (string, error) {
	if _, err := SingleAddr(url); err != nil {
		return "", err
	}
	if _, err := checkAddr(addr); err != nil {
		return "", fmt.Errorf("%w for -redis: the address to lead to %w", ErrSpec, err)
	}
	scheme, rest, _ := strings.Cut(withScheme(url), "://")
	authority, tail := cutAuthority(rest)
	user := authority[:strings.LastIndex(authority, "@")+1]
	return scheme + "://" + user + addr + tail, nil
}

// WithReadTimeout adds the read timeout to the URL of a Redis, unless the URL already has one, and
// returns the URL. The error wraps ErrSpec for a wrong URL.
func WithReadTimeout(redisURL string, d time.Duration) (string, error) {
	if _, err := parseRedisURL(redisURL); err != nil {
		return "", err
	}
	redisURL = withScheme(redisURL)
	address, parameters, found := strings.Cut(redisURL, "?")
	if !found {
		return address + "?read_timeout=" + d.String(), nil
	}
	query, _ := url.ParseQuery(parameters)
	if set := query["read_timeout"]; len(set) > 0 && set[len(set)-1] != "" { // the client takes the last one
		return redisURL, nil
	}
	return redisURL + "&read_timeout=" + d.String(), nil
}

package backend

import "testing"

// redisError is an error that a Redis has answered.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

func TestRefusalsOfINFO(t *testing.T) {
	for text, want := range map[string]bool{
		"NOPERM this user has no permissions to run the 'info' command": true,
		"ERR unknown command 'INFO', with args beginning with: 'stats'": true,
		"LOADING Redis is loading the dataset in memory":                false,
		"ERR max number of clients reached":                             false,
		"NOAUTH Authentication required.":                               false,
	} {
		if got := infoRefused(redisError(text)); got != want {
			t.Errorf("%q: refused is %v, want %v", text, got, want)
		}
	}
}

package problem

import (
	"crypto/subtle"
	"net/http"
	"path"
	"strings"

	"oversell/internal/message"
)

// Routes maps patterns of an http.ServeMux to handlers.
type Routes map[string]http.HandlerFunc

// Handler serves the routes, and refuses all other requests. Routes for GET also serve HEAD.
func (routes Routes) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range routes {
		mux.HandleFunc(pattern, handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if given := r.URL.EscapedPath(); given != path.Clean(given) { // the mux would redirect to another path
			NoSuchPath(w)
			return
		}
		refuse, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refused := &refusal{ResponseWriter: w}
		refuse.ServeHTTP(refused, r)
		if refused.status == http.StatusMethodNotAllowed {
			WrongMethod(w, w.Header().Get("Allow"))
			return
		}
		NoSuchPath(w)
	})
}

// refusal keeps the status of a reply, and drops its body.
type refusal struct {
	http.ResponseWriter
	status int
}

func (r *refusal) WriteHeader(status int) { r.status = status }

func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }

// NoSuchPath replies that there is nothing at the path of a request.
func NoSuchPath(w http.ResponseWriter) {
	Reply(w, http.StatusNotFound, "no_such_path", message.Text("no such path"))
}

// WrongMethod replies that a path allows only the given methods.
func WrongMethod(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	Reply(w, http.StatusMethodNotAllowed, "wrong_method", message.Newf("allowed here: %s", allowed))
}

// Parameters refuses requests with query parameters that are not allowed.
func Parameters(next http.HandlerFunc, allowed ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := ReadQuery(w, r, allowed...); ok {
			next(w, r)
		}
	}
}

// Bodiless refuses requests with a body: the client would not get what it asked for. Moreover,
// during a long request the server notices that the client has left only if there is no unread
// body.
func Bodiless(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			Reply(w, http.StatusBadRequest, CodeInvalid, message.Text("no body is allowed here"))
			return
		}
		next(w, r)
	}
}

// Guarded refuses requests without the token, if one is required.
func Guarded(token string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !Authorized(r, token) {
			Challenge(w)
			return
		}
		next(w, r)
	}
}

// Authorized reports whether a request has the token. If token is "", every request is authorized.
// The name of the scheme may be in lower case (RFC 9110, section 11.1).
func Authorized(r *http.Request, token string) bool {
	if token == "" {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// Challenge replies to a request without the token.
func Challenge(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="oversell"`)
	Reply(w, http.StatusUnauthorized, "no_token", message.Text("this needs the header Authorization: Bearer TOKEN"))
}

package problem

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ReadQuery returns the parameters of a request's query. Each must be allowed, be given once and
// not be empty; otherwise ReadQuery replies with what is wrong and returns false. Unknown
// parameters are not ignored, because then the client would not get what it asked for.
func ReadQuery(w http.ResponseWriter, r *http.Request, allowed ...string) (parameters map[string]string, ok bool) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		Reply(w, http.StatusBadRequest, CodeInvalid, "the query of the URL cannot be read: "+err.Error())
		return nil, false
	}
	parameters = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		given := values[name]
		switch {
		case !slices.Contains(allowed, name):
			Reply(w, http.StatusBadRequest, CodeInvalid, "unknown parameter "+Quoted(name)+"; "+listed(allowed))
			return nil, false
		case len(given) > 1:
			Reply(w, http.StatusBadRequest, CodeInvalid, "the parameter "+name+" is given more than once")
			return nil, false
		case given[0] == "":
			Reply(w, http.StatusBadRequest, CodeInvalid, "the parameter "+name+" is empty")
			return nil, false
		}
		parameters[name] = given[0]
	}
	return parameters, true
}

func listed(allowed []string) string {
	if len(allowed) == 0 {
		return "no parameter is allowed here"
	}
	return "allowed here: " + strings.Join(allowed, ", ")
}

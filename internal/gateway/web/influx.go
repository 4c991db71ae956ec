package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// precision is the query parameter of InfluxDB for the unit of times.
const precision = "precision"

// units are the values of precision in both versions of InfluxDB; minutes and hours are only in
// version 1.
var units = map[string]time.Duration{
	"n": time.Nanosecond, "ns": time.Nanosecond, "u": time.Microsecond, "us": time.Microsecond, "\u00b5": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
}

// parsePrecision returns the unit of the times at the ends of lines; 0: the configured unit.
func parsePrecision(u *url.URL) (time.Duration, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return 0, fmt.Errorf("the query cannot be read: %s", names.Cut(err.Error(), 80))
	}
	values := query[precision]
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return 0, nil
	}
	unit := units[values[0]]
	if len(values) > 1 || unit == 0 || unit > time.Second && u.Path != "/write" {
		return 0, fmt.Errorf("precision is %q: want one of ns, us, ms and s, or n, u, m and h for /write", names.Cut(strings.Join(values, ","), 40))
	}
	return unit, nil
}

// influxAnswer writes errors as InfluxDB does, as JSON with the fields of both versions,
// because clients of InfluxDB log these fields.
type influxWriter struct{ http.ResponseWriter }

// Unwrap lets a response controller set the deadlines of the connection.
func (w influxWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// writeError answers a request with an error.
func writeError(w http.ResponseWriter, code int, text string) {
	influx, ok := w.(influxWriter)
	if !ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		io.WriteString(w, text+"\n")
		return
	}
	kind := "invalid"
	if code >= http.StatusInternalServerError {
		kind = "unavailable"
	}
	influx.Header().Set("Content-Type", "application/json; charset=utf-8")
	influx.WriteHeader(code)
	json.NewEncoder(influx).Encode(map[string]string{"code": kind, "message": text, "error": text})
}

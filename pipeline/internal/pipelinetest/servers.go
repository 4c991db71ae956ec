package pipelinetest

import (
	"net/url"
	"strconv"
	"testing"

	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// Port is where a server listens.
func Port(t testing.TB, s *natsserver.Server) int {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

package metrics

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// TestGatewayMetrics: a gateway serves the metrics that its document lists.
func TestGatewayMetrics(t *testing.T) {
	s, err := Listen("127.0.0.1:0", Options{Gateway: func() gateway.Stats {
		return gateway.Stats{Messages: map[string]uint64{"mqtt": 7}, Refused: map[string]uint64{"mqtt": 3}, HoldingBack: true, Waiting: 5}
	}, Traces: func() trace.Stats { return trace.Stats{Sent: 9, Dropped: 8, Limited: 7} }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	resp, err := http.Get("http://" + s.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`eusn_gateway_messages_total{input="mqtt"} 7`, `eusn_gateway_refused_total{input="mqtt"} 3`, "eusn_gateway_holding_back 1", "eusn_gateway_outbox_batches 5",
		"eusn_traces_sent_total 9", "eusn_traces_dropped_total 8", "eusn_traces_limited_total 7"} {
		if !strings.Contains(string(page), want+"\n") {
			t.Errorf("/metrics lacks %s:\n%s", want, page)
		}
	}
}

package live

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Messages of a job's output that are no predictions are skipped and reported, but not
// each; later predictions are printed.
func TestPrinterGoesOn(t *testing.T) {
	t.Parallel()
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-OUT", Subjects: []string{"eusn.out.*"}})
	if err != nil {
		t.Fatal(err)
	}
	enc, err := codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(subject string, body []byte, header nats.Header) {
		t.Helper()
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: body, Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	prediction := func(seq uint64) {
		t.Helper()
		body, err := enc.Encode([]codec.Prediction{{Stream: "s", Seq: seq, Answer: outcome.Answer{Class: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		publish("eusn.out.0", body, nats.Header{"Eusn-In-Seq": {fmt.Sprint(seq)}, "Eusn-Outs": {fmt.Sprint(seq)}})
	}
	prediction(1)
	publish("eusn.out.0", []byte("hello"), nil)
	prediction(2)
	body, err := enc.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	publish("eusn.out.0", body, nil) // without its headers
	publish("eusn.out.else", body, nil)
	prediction(3)

	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	out := &enough{lines: 3, then: cancel}
	p := &printer{w: out, job: "eusn", nc: nc, js: js, from: 1, skipped: foreigners{log: slog.New(slog.NewTextHandler(&log, nil))}}
	if err := p.printOutput(ctx); err != nil {
		t.Errorf("printing ended: %v", err)
	}
	for seq := 1; seq <= 3; seq++ {
		if n := strings.Count(out.text.String(), fmt.Sprintf(`"seq":%d,`, seq)); n != 1 {
			t.Errorf("prediction %d is printed %d times:\n%s", seq, n, out.text.String())
		}
	}
	if said := log.String(); strings.Count(said, "message skipped") != 1 || !strings.Contains(said, "nats stream rmm EUSN-OUT 2") {
		t.Errorf("said, want once:\n%s", said)
	}
	if p.skipped.count != 2 {
		t.Errorf("%d more to be told, want 2", p.skipped.count)
	}
}

// enough counts lines, and calls then at the last wanted line.
type enough struct {
	text  bytes.Buffer
	lines int
	then  func()
}

func (e *enough) Write(p []byte) (int, error) {
	if e.lines -= bytes.Count(p, []byte("\n")); e.lines == 0 {
		e.then()
	}
	return e.text.Write(p)
}

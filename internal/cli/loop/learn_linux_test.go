package loop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// Many labels without a target, and many invalid messages, do not prevent training: all
// are counted, few are listed. With EUSN_LEARN_LABELS=100000, and EUSN_LEARN_MALFORMED,
// the test measures the figures in docs/results.md.
func TestLearnManyLabels(t *testing.T) {
	t.Parallel()
	number := func(name string) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			return 2000
		}
		return n
	}
	pending, malformed := number("EUSN_LEARN_LABELS"), number("EUSN_LEARN_MALFORMED")
	j := newLearnJob(t, learnStreams*learnSequences, "--members", "2", "--units", "8")
	j.sayAll(t)
	clitest.OnServer(t, j.url, func(js jetstream.JetStream) error {
		for i := range pending + malformed {
			text := []byte(`{"stream":"m0"}`)
			stream := fmt.Sprintf("p%d", i%1000)
			if i < pending {
				l := labels.Label{Stream: stream, Seq: uint64(i + 1), Class: "odd", Who: "robot", When: time.Now()}
				if i%2 == 0 {
					l.Seq, l.From, l.To = 0, int64(i), int64(i)+10
				}
				var err error
				if text, err = l.Marshal(); err != nil {
					return err
				}
			}
			if _, err := js.PublishAsync("eusn.labels."+stream, text); err != nil {
				return err
			}
			if i%1000 == 999 {
				<-js.PublishAsyncComplete()
			}
		}
		select {
		case <-js.PublishAsyncComplete():
		case <-time.After(2 * time.Minute):
			return fmt.Errorf("%d labels are not stored", js.PublishAsyncPending())
		}
		return nil
	})
	cmd := planttest.Command(j.args("new.safetensors", "--json")...)
	var said strings.Builder
	cmd.Stderr = &said
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	var did map[string]any
	if err := json.Unmarshal(out, &did); err != nil {
		t.Fatal(err)
	}
	if did["labels_pending"] != float64(pending) || did["labels_malformed"] != float64(malformed) || did["labels_used"] != 36. || len(out) > 1<<16 {
		t.Errorf("%v pending, %v malformed, %v used, in %d bytes", did["labels_pending"], did["labels_malformed"], did["labels_used"], len(out))
	}
	sameReadout(t, "beside many labels", j.in("new.safetensors"), j.model)
	t.Logf("%d pending and %d malformed labels: %.2f s, %d MB", pending, malformed, time.Since(began).Seconds(), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
}

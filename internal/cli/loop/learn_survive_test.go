package loop_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// program runs the program in a separate process, which can be killed.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	p := planttest.Command(args...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

// waitingLabel returns a label for missing data: the first numbers name later data, the
// others nothing.
func waitingLabel(i int) labels.Label {
	if s, k := i%learnStreams, i/learnStreams; k < learnSequences {
		l := learnInterval(s, k*learnLength, (k+1)*learnLength, learnClass(s, k))
		l.Stream = fmt.Sprintf("n%d", s)
		return l
	}
	l := labels.Label{Stream: fmt.Sprintf("p%d", i%1000), Class: "odd", Seq: uint64(i)}
	if i%2 == 0 {
		l.Seq, l.From, l.To = 0, int64(i), int64(i)+10
	}
	return l
}

// sayWaiting stores a range of labels, each until the server has stored it.
func sayWaiting(ctx context.Context, js jetstream.JetStream, from, to int) error {
	for from < to {
		var answers []jetstream.PubAckFuture
		for i := from; i < min(to, from+500); i++ {
			l := waitingLabel(i)
			l.Who, l.When = "robot", time.Unix(1_750_000_000, 0)
			text, err := l.Marshal()
			if err != nil {
				return err
			}
			m := &nats.Msg{Subject: "eusn.labels." + l.Stream, Data: text, Header: nats.Header{jetstream.MsgIDHeader: {fmt.Sprint("waiting-", i)}}}
			if a, err := js.PublishMsgAsync(m); err == nil {
				answers = append(answers, a)
			}
		}
		for _, a := range answers { // unacknowledged labels are resent, with all later labels
			select {
			case <-a.Ok():
				from++
				continue
			case <-a.Err():
			case <-ctx.Done():
				return ctx.Err()
			}
			break
		}
	}
	return nil
}

// Labels for missing data survive kills of the server, the stage and the learner at the
// same time: none is lost, none counts twice, and their data is used when it arrives.
// With EUSN_LEARN_LABELS=100000 the test measures the figures in docs/results.md.
func TestPendingLabelsSurvive(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT CHECKED: killed programs take seconds, -short was given")
	}
	waiting, kills := 2000, 3
	if n, err := strconv.Atoi(os.Getenv("EUSN_LEARN_LABELS")); err == nil {
		waiting, kills = n, 10
	}
	const later = learnStreams * learnSequences
	j := newLearnJob(t, later, "--members", "2", "--units", "8")
	j.sayAll(t)
	j.server.Close()
	port := planttest.FreePort(t)
	j.url = "nats://127.0.0.1:" + port
	nc, err := nats.Connect(j.url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		t.Helper()
		p := program(t, "run", "--model", j.model, "--partitions", "3", "--dir", j.in("data"), "--port", port)
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if _, err := js.Stream(t.Context(), "EUSN-LABELS"); err == nil {
				return p
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	stage := start()
	said := make(chan error, 1)
	go func() { said <- sayWaiting(t.Context(), js, 0, waiting) }()
	for k := range kills {
		learner := program(t, j.args("killed.safetensors")...)
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // some more labels are there
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s, err := js.Stream(ctx, "EUSN-LABELS")
			cancel()
			if err == nil && s.CachedInfo().State.Msgs >= uint64(36+(k+1)*waiting/(kills+1)) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("kill %d: the labels do not come: %v", k, err)
			}
		}
		stage.Process.Kill()
		learner.Process.Kill()
		stage.Wait()
		learner.Wait()
		stage = start()
	}
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	began2 := time.Now()
	did := j.to(t, "new.safetensors")
	if did["labels_read"] != float64(waiting+36) || did["labels_pending"] != float64(waiting) || did["labels_used"] != 36. || did["labels_replaced"] != 0. {
		t.Fatalf("%v read, %v pending, %v used, %v replaced; want %d waiting and 36 used", did["labels_read"], did["labels_pending"], did["labels_used"], did["labels_replaced"], waiting)
	}
	sameReadout(t, "beside waiting labels", j.in("new.safetensors"), j.model)
	t.Logf("%d waiting labels, %d kills of server, stage and learner: %.1f s; learn after them: %.1f s", waiting, kills, began2.Sub(began).Seconds(), time.Since(began2).Seconds())

	clitest.Write(t, j.in("later.csv"), strings.ReplaceAll(labeledCSV(), "\nm", "\nn"))
	clitest.Must(t, "import", j.in("later.csv"), "--output", j.in("later.parquet"))
	clitest.Must(t, "replay", j.in("later.parquet"), "--nats-url", j.url, "--rows", "7")
	clitest.Await(t, j.url, 2*later, 0)
	did = j.to(t, "later.safetensors")
	if did["labels_used"] != float64(36+later) || did["labels_pending"] != float64(waiting-later) || did["sequences"] != float64(36+later) {
		t.Errorf("what came later: %v used, %v pending, of %v sequences", did["labels_used"], did["labels_pending"], did["sequences"])
	}
}

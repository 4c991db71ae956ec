package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestLagOfPausedConsumers: a paused consumer delivers nothing, and the worker does not learn of
// waiting messages. The lag comes from the server: the report does not claim that the job is up to
// date.
func TestLagOfPausedConsumers(t *testing.T) {
	for _, workers := range []int{1, 2} { // one worker reads all partitions with one consumer
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for range workers {
				r.startWorker(testModel(t), pipeline.Config{Partitions: 4})
			}
			r.waitForReport("workers that read", func(rep *fleet.Report) bool {
				for i := range rep.Processes {
					if rep.Processes[i].Stage.Phases["reading"] != 4/workers {
						return false
					}
				}
				return len(rep.Processes) == workers && rep.Partitions.Phases["reading"] == 4
			})
			for i := range 8 {
				r.publishSamples(fmt.Sprint("k", i), 5)
			}
			r.waitForReport("answers", func(rep *fleet.Report) bool {
				return rep.Lag.Answered >= 0 && rep.Lag.Messages == 0 && rep.Lag.Behind != nil && *rep.Lag.Behind == 0
			})
			in, err := r.js.Stream(t.Context(), "EUSN-IN")
			if err != nil {
				t.Fatal(err)
			}
			names := in.ConsumerNames(t.Context())
			n := 0
			for name := range names.Name() {
				if _, err := in.PauseConsumer(t.Context(), name, time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n == 0 || names.Err() != nil {
				t.Fatalf("%d consumers, %v", n, names.Err())
			}
			for i := range 8 {
				r.publishSamples(fmt.Sprint("k", i), 5)
			}
			published := time.Now()
			rep := r.waitForReport("the lag of messages that no consumer delivers", func(rep *fleet.Report) bool {
				if time.Since(published) > 9*time.Second { // after this the worker creates new consumers
					t.Fatalf("%q: %+v", rep.Verdict, rep.Lag)
				}
				return rep.Lag.Behind != nil && *rep.Lag.Behind > 5
			})
			if rep.Level != fleet.Attention || !strings.Contains(rep.Verdict, " behind: ") || rep.Lag.Messages == 0 || rep.Lag.Unknown != 0 {
				t.Errorf("%s: %q: %+v", rep.Level, rep.Verdict, rep.Lag)
			}
		})
	}
}

package watchcmd_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Two kinds of machines on the same subjects of a NATS server with JetStream: the printed command
// watches the second kind next to the first, each in its own job without dead letters.
func TestWatchNATS(t *testing.T) {
	t.Parallel()
	s := pipelinetest.Server(t, natsserver.Options{Port: -1})
	nc, js := pipelinetest.Connect(t, s)
	kinds := []plant{{"test", 8, 3, 256, .3, 0, "lists", 32, "level", 5}, {"mill", 7, 2, 256, .3, 0, "lists", 32, "level", 5}}
	var machines [2][]*simulated
	for i, p := range kinds {
		for k := range p.machines {
			machines[i] = append(machines[i], p.machine(k))
		}
	}
	done := make(chan bool)
	defer close(done)
	go func() {
		for tick := time.NewTicker(125 * time.Millisecond); ; <-tick.C {
			select {
			case <-done:
				return
			default:
			}
			for i, p := range kinds {
				for k, m := range machines[i] {
					fields := make([][]string, p.channels)
					for range p.rows {
						for c, v := range m.sample(false) {
							fields[c] = append(fields[c], number(v))
						}
					}
					var text []string
					for c, column := range fields {
						text = append(text, fmt.Sprintf("%q:[%s]", p.channel(c), strings.Join(column, ",")))
					}
					nc.Publish(fmt.Sprintf("hall.%s%d", p.name, k), []byte("{"+strings.Join(text, ",")+"}"))
				}
			}
		}
	}()
	dir := t.TempDir()
	first := startWatch(t, s.URL()+"/hall.*", "--learn", "5s", "--save", filepath.Join(dir, "plant"))
	first.await(t, `"event":"found"`, pipelinetest.Patience)
	_, printed, _ := strings.Cut(first.out.String(), `"command":"eusn-stream watch `)
	command, _, _ := strings.Cut(printed, `"`)
	second := startWatch(t, strings.Fields(strings.ReplaceAll(command, "'", ""))...)
	for i, w := range []*watching{first, second} {
		w.await(t, `"verdict"`, pipelinetest.Patience)
		w.await(t, fmt.Sprintf(`"stream":"hall.%s`, kinds[i].name), pipelinetest.Patience)
	}
	for i, w := range []*watching{first, second} {
		w.end(t)
		folder := filepath.Join(dir, []string{"plant", "plant-kind2"}[i])
		clitest.Must(t, "config", "check", filepath.Join(folder, "eusn-stream.yaml"))
		dead, err := js.Stream(t.Context(), []string{"WATCH-PLANT-DLQ", "WATCH-PLANT-KIND2-DLQ"}[i])
		if err != nil {
			t.Fatal(err)
		}
		if n := dead.CachedInfo().State.Msgs; n > 0 || strings.Contains(w.errOut.String(), "refused") {
			t.Errorf("%s has %d dead letters, want none\n%s", folder, n, w.errOut.String())
		}
	}
	clitest.Exec(t, t.Context(), "watch", s.URL()+"/hall.*", "--learn", "2s", "--save", filepath.Join(dir, "other")).Want(t, cli.ExitFailure, "WATCH-PLANT-IN takes messages of hall.test0 already")
}

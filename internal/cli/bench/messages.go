package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/load"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// The workload of small messages.
const (
	producers       = 200                                // each producer
	producerEvery   = 100 * time.Millisecond / producers // all together: a message each time
	messageShare    = 1.                                 // of a round, see messageCount
	messageLeast    = 1000                               // messages of a round
	messagePartsMax = 64                                 // partitions for the comparison of a backlog: an earlier default of jobs
)

// budgets are the latencies (stage.latency) of part latency.
var budgets = []time.Duration{5 * time.Millisecond, time.Millisecond}

// messagesRow is a result. Times of CPU are microseconds a message.
type messagesRow struct {
	Bench          string  `json:"bench"` // messages
	Part           string  `json:"part"`
	Partitions     int     `json:"partitions"`
	RowsPerMessage int     `json:"rows_per_message"`
	Rounds         int     `json:"rounds"`
	Messages       int     `json:"messages"`               // of a round
	PlainCPU       float64 `json:"plain_cpu_us,omitempty"` // backlog: of 64 partitions
	CPU            float64 `json:"cpu_us,omitempty"`
	Ratio          float64 `json:"ratio,omitempty"` // plain to ours; backlog: ours to that of 64 partitions
	Lowest         float64 `json:"ratio_least,omitempty"`
	Highest        float64 `json:"ratio_most,omitempty"`
	Commits        float64 `json:"commits_per_message,omitempty"`
	Rate           float64 `json:"messages_per_s,omitempty"`
	BudgetMS       float64 `json:"budget_ms,omitempty"`
	PlainP50       float64 `json:"plain_p50_ms,omitempty"`
	PlainP99       float64 `json:"plain_p99_ms,omitempty"`
	P50            float64 `json:"p50_ms,omitempty"`
	P99            float64 `json:"p99_ms,omitempty"`
	Max            float64 `json:"max_ms,omitempty"`
	Snapshots      uint64  `json:"snapshots,omitempty"` // taken meanwhile
}

// messageBench is shared by all parts of a number of rows.
type messageBench struct {
	app  *cli.App
	o    *benchOptions
	out  *benchPrinter
	rows int // of a message
}

// benchMessages runs the requested measurements.
func benchMessages(ctx context.Context, a *cli.App, o *benchOptions, out *benchPrinter) error {
	for _, rows := range o.rows {
		m := &messageBench{app: a, o: o, out: out, rows: rows}
		for _, partitions := range o.partitions {
			if err := m.measure(ctx, partitions); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure runs the requested parts with a number of partitions.
func (m *messageBench) measure(ctx context.Context, partitions int) error {
	var rate float64
	if m.o.wants(partCPU) || m.o.wants(partHalf) {
		row, err := m.cpu(ctx, partitions)
		if err != nil {
			return err
		}
		rate = row.Rate
		if err := m.out.messages(row); err != nil {
			return err
		}
	}
	if m.o.wants(partHalf) {
		every := time.Duration(float64(time.Second) / (stagePace * rate))
		if err := m.latency(ctx, partHalf, partitions, pipeline.Defaults().Latency, every); err != nil {
			return err
		}
	}
	if m.o.wants(partLatency) {
		for _, budget := range budgets {
			if err := m.latency(ctx, partLatency, partitions, budget, producerEvery); err != nil {
				return err
			}
		}
	}
	if m.o.wants(partBacklog) {
		return m.backlog(ctx, partitions)
	}
	return nil
}

// with opens a server with a job and does f.
func (m *messageBench) with(ctx context.Context, partitions int, latency time.Duration, keys int, f func(*stageBench) error) (err error) {
	dir, err := os.MkdirTemp(m.o.dir, "eusn-bench-*")
	if err != nil {
		return cli.Fail(cli.ExitFailure, err, "--dir with a writable folder")
	}
	defer os.RemoveAll(dir)
	b := &stageBench{
		cfg:     pipeline.Config{Job: stageJob, Partitions: partitions, RowBudget: m.o.batch, Latency: latency}.WithDefaults(),
		factory: engines.New(m.app.Engine), log: m.app.Logger("warn", m.app.LogFormat()), rows: m.rows, keys: keys,
	}
	if b.model, err = stageModel("", m.rows); err != nil {
		return err
	}
	if err := b.openBench(ctx, dir); err != nil {
		return err
	}
	defer b.closeBench()
	return f(b)
}

// count is how many messages a round has, to take about --time.
func (m *messageBench) count(perSecond float64) int {
	return max(messageLeast, int(perSecond*m.o.time.Seconds()))
}

// cpu sends the same messages to plain JetStream and to the stage, in turns.
func (m *messageBench) cpu(ctx context.Context, partitions int) (row messagesRow, err error) {
	err = m.with(ctx, partitions, pipeline.Defaults().Latency, stageKeys, func(b *stageBench) error {
		p, err := b.openPlain(ctx)
		if err != nil {
			return err
		}
		defer p.closePlain()
		return b.runBench(ctx, func(ctx context.Context) error {
			row, err = m.pairs(ctx, b, p)
			return err
		})
	})
	row.Part, row.Partitions = partCPU, partitions
	return row, err
}

// pairs sends rounds of messages both ways, in alternating order.
func (m *messageBench) pairs(ctx context.Context, b *stageBench, p *plain) (messagesRow, error) {
	var first spent
	for range 2 { // the first includes one-time costs
		if _, err := p.send(ctx, messageLeast); err != nil {
			return messagesRow{}, err
		}
		var err error
		if first, _, err = b.send(ctx, messageLeast); err != nil {
			return messagesRow{}, err
		}
	}
	n := m.count(first.perSecond())
	stop, err := m.profile(b, b.cfg.Partitions)
	if err != nil {
		return messagesRow{}, err
	}
	defer stop()
	var plains, ours, ratios, commits, rates []float64
	for i := range m.o.rounds {
		var their, our spent
		var made float64
		var errs [2]error
		plainSide := func() { their, errs[0] = p.send(ctx, n) }
		if i%2 == 0 {
			plainSide()
		}
		our, made, errs[1] = b.send(ctx, n)
		if i%2 == 1 {
			plainSide()
		}
		for _, err := range errs {
			if err != nil {
				return messagesRow{}, err
			}
		}
		plains, ours, ratios = append(plains, their.each()), append(ours, our.each()), append(ratios, their.each()/our.each())
		commits, rates = append(commits, made/float64(n)), append(rates, our.perSecond())
	}
	return messagesRow{
		Bench: "messages", RowsPerMessage: m.rows, Rounds: m.o.rounds, Messages: n, PlainCPU: median(plains), CPU: median(ours),
		Ratio: median(ratios), Lowest: slices.Min(ratios), Highest: slices.Max(ratios),
		Commits: median(commits), Rate: median(rates),
	}, nil
}

// latency measures a steady pace, at plain JetStream and at the stage in turns.
func (m *messageBench) latency(ctx context.Context, part string, partitions int, budget, every time.Duration) error {
	row := messagesRow{Bench: "messages", Part: part, Partitions: partitions, RowsPerMessage: m.rows, Rounds: m.o.rounds, BudgetMS: float64(budget) / float64(time.Millisecond)}
	row.Rate = float64(time.Second) / float64(every)
	err := m.with(ctx, partitions, budget, producers, func(b *stageBench) error {
		p, err := b.openPlain(ctx)
		if err != nil {
			return err
		}
		defer p.closePlain()
		return b.runBench(ctx, func(ctx context.Context) error {
			var p50, p99, most, plain50, plain99 []float64
			before := b.stats.Stats()
			for range m.o.rounds {
				their, err := p.paced(ctx, every, stageWarmUp+m.o.time)
				if err != nil {
					return err
				}
				our, err := b.paced(ctx, every, stageWarmUp+2*m.o.time)
				if err != nil {
					return err
				}
				row.Messages = len(our)
				plain50, plain99 = append(plain50, load.Quantile(their, .5)), append(plain99, load.Quantile(their, .99))
				p50, p99, most = append(p50, load.Quantile(our, .5)), append(p99, load.Quantile(our, .99)), append(most, load.Quantile(our, 1))
			}
			after := b.stats.Stats()
			row.PlainP50, row.PlainP99, row.P50, row.P99, row.Max = median(plain50), median(plain99), median(p50), median(p99), median(most)
			row.Snapshots = after.Snapshots - before.Snapshots
			if sent := after.Messages - before.Messages; sent > 0 {
				row.Commits = float64(after.Commits-before.Commits) / float64(sent)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return m.out.messages(row)
}

// backlog compares the rate of working off stored messages with the rate of 64 partitions, in turns.
func (m *messageBench) backlog(ctx context.Context, partitions int) error {
	return m.with(ctx, partitions, pipeline.Defaults().Latency, stageKeys, func(b *stageBench) error {
		return m.with(ctx, messagePartsMax, pipeline.Defaults().Latency, stageKeys, func(many *stageBench) error {
			first, err := many.drain(ctx, 4*messageLeast)
			if err != nil {
				return err
			}
			n := m.count(4 * first.perSecond())
			var rates, ratios, cpus, plains []float64
			for range m.o.rounds {
				old, err := many.drain(ctx, n)
				if err != nil {
					return err
				}
				now, err := b.drain(ctx, n)
				if err != nil {
					return err
				}
				rates, ratios = append(rates, now.perSecond()), append(ratios, now.perSecond()/old.perSecond())
				cpus, plains = append(cpus, now.each()), append(plains, old.each())
			}
			return m.out.messages(messagesRow{
				Bench: "messages", Part: partBacklog, Partitions: partitions, RowsPerMessage: m.rows, Rounds: m.o.rounds, Messages: n,
				Rate: median(rates), Ratio: median(ratios), Lowest: slices.Min(ratios), Highest: slices.Max(ratios),
				CPU: median(cpus), PlainCPU: median(plains),
			})
		})
	})
}

// profile begins to write the profile asked for.
func (m *messageBench) profile(b *stageBench, partitions int) (stop func(), err error) {
	if m.o.profile != "" {
		b.profile = fmt.Sprintf("%s-%d-%d.pprof", m.o.profile, partitions, m.rows)
	}
	end, err := b.startProfile()
	return func() {
		if err := end(); err != nil {
			b.log.Error("profile", "err", err)
		}
	}, err
}

// keyOf returns a message as a prediction of its key.
func keyOf(m jetstream.Msg) []codec.Prediction {
	_, key, _ := strings.Cut(m.Subject(), ".")
	return []codec.Prediction{{Stream: key}}
}

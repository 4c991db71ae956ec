package bench

import (
	"encoding/json"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// benchPrinter prints rows when they are ready: a table each for engines and stage, or a JSON object a line.
type benchPrinter struct {
	app          *cli.App
	rows         int
	engines, pub bool   // whether the table's head is out
	part         string // of small messages, after the printed head
}

func (p *benchPrinter) line(row any) error {
	p.rows++
	return json.NewEncoder(p.app.Stdout).Encode(row)
}

func (p *benchPrinter) peaks(rows []peakRow) error {
	for _, r := range rows {
		if p.app.JSON {
			if err := p.line(r); err != nil {
				return err
			}
			continue
		}
		p.rows++
		p.app.Print("peak of fused multiply-adds, %-7s %2d thread(s): %8.1f GFLOP/s", r.Set, r.Threads, r.Peak)
	}
	return nil
}

func (p *benchPrinter) engine(r engineRow) error {
	if p.app.JSON {
		return p.line(r)
	}
	p.rows++
	if !p.engines {
		p.engines = true
		p.app.Print("\n%-8s %8s %6s %8s %6s %7s %11s %10s %10s %8s %9s %9s", "engine", "units", "inputs", "streams", "steps", "threads", "Mstep/s", "ns/step", "ns x cores", "GFLOP/s", "of peak", "of issue")
	}
	units, core, share, issue, note := fmt.Sprint(r.Units), "-", "-", "-", ""
	switch {
	case r.Recipe != "":
		units = r.Recipe
	case r.Members > 1:
		units = fmt.Sprintf("%dx%d", r.Members, r.Units)
	}
	if r.CoreTime > 0 {
		core = fmt.Sprintf("%.1f", r.CoreTime)
	}
	if r.Peak > 0 {
		share = fmt.Sprintf("%.1f %%", 100*r.PeakShare)
	}
	if r.IssueTo > 0 {
		issue = fmt.Sprintf("%.1f %%", 100*r.IssueTo)
	}
	if r.Random {
		note = "  random order"
	}
	switch {
	case r.Joules > 0:
		note += fmt.Sprintf("  %.3g J/Mstep, %.0f W", r.Joules, r.Watts)
	case r.Missing != "":
		note += "  energy " + r.Missing
	}
	p.app.Print("%-8s %8s %6d %8d %6d %7d %11.4f %10.1f %10s %8.1f %9s %9s%s", r.Engine, units, r.Inputs, r.Streams, r.Steps, r.Threads, r.Rate, 1e3/r.Rate, core, r.GFLOPS, share, issue, note)
	return nil
}

func (p *benchPrinter) stage(r stageRow) error {
	if p.app.JSON {
		return p.line(r)
	}
	p.rows++
	if !p.pub {
		p.pub = true
		p.app.Print("\n%-8s %8s %10s %10s %8s %12s %12s %12s %8s %8s", "stage", "units", "partitions", "rows/s", "MB/s", "of engines", "engine time", "paced rows/s", "p50 ms", "p99 ms")
	}
	units := r.Recipe
	if units == "" {
		units = fmt.Sprint(r.Units)
	}
	p.app.Print("%-8s %8s %10d %10.0f %8.1f %10.1f %% %10.1f %% %12.0f %8.2f %8.2f", r.Engine, units, r.Partitions, r.RowsPerSecond, r.BytesPerSecond/1e6,
		100*r.EngineShare, 100*r.EngineTime, r.Paced, r.P50, r.P99)
	return nil
}

func (p *benchPrinter) messages(r messagesRow) error {
	if p.app.JSON {
		return p.line(r)
	}
	p.rows++
	head := p.part != r.Part
	p.part = r.Part
	switch r.Part {
	case partCPU:
		if head {
			p.app.Print("\n%-8s %6s %10s %12s %12s %8s %15s %12s %12s", "cpu", "rows", "partitions", "plain us", "stage us", "ratio", "least to most", "commits/msg", "stage msg/s")
		}
		p.app.Print("%-8s %6d %10d %12.1f %12.1f %8.2f %15s %12.3f %12.0f", "", r.RowsPerMessage, r.Partitions, r.PlainCPU, r.CPU, r.Ratio, fmt.Sprintf("%.2f to %.2f", r.Lowest, r.Highest), r.Commits, r.Rate)
	case partBacklog:
		if head {
			p.app.Print("\n%-8s %6s %10s %12s %8s %15s %12s %12s", "backlog", "rows", "partitions", "msg/s", "of 64", "least to most", "CPU us", "of 64 us")
		}
		p.app.Print("%-8s %6d %10d %12.0f %8.2f %15s %12.1f %12.1f", "", r.RowsPerMessage, r.Partitions, r.Rate, r.Ratio, fmt.Sprintf("%.2f to %.2f", r.Lowest, r.Highest), r.CPU, r.PlainCPU)
	default:
		if head {
			p.app.Print("\n%-8s %6s %10s %10s %10s %10s %10s %8s %8s %8s %9s %12s", r.Part, "rows", "partitions", "msg/s", "budget ms", "plain p50", "plain p99", "p50 ms", "p99 ms", "max ms", "snapshots", "commits/msg")
		}
		p.app.Print("%-8s %6d %10d %10.0f %10.1f %10.2f %10.2f %8.2f %8.2f %8.2f %9d %12.3f", "", r.RowsPerMessage, r.Partitions, r.Rate, r.BudgetMS, r.PlainP50, r.PlainP99, r.P50, r.P99, r.Max, r.Snapshots, r.Commits)
	}
	return nil
}

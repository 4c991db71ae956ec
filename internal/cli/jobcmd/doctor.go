package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/disk"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/hardware"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// Finding is the result of one check of doctor.
type Finding struct {
	Subject  string `json:"subject"`
	Status   string `json:"status"` // ok, note or problem
	Sentence string `json:"sentence"`
}

// NewDoctor is "doctor".
func NewDoctor(a *cli.App) *cobra.Command {
	var file, store string
	doctorFlags := []string{"dir", "nats-url", "job"}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, the data directory and the NATS server",
		Long: `Check the processor, memory, GPU, data directory and NATS server that "run" would
use with the same configuration, what the job reads, how many consumers there may be, how
fast the job fills the disk, and which limits apply. Exits with 4 if the NATS server cannot be reached, and with 1 for any other
problem.

--repair restores lost checksums in the store of a NATS server. Stop the server first,
and run the command as the server's user. A server that was interrupted between
writing the configuration of a NATS stream (meta.inf) and its checksum (meta.sum) does
not load that NATS stream at its next start ("Missing stream checksum file" in its
log), although all messages are still there. --repair computes the checksum from the
configuration and changes nothing else. "run" does this for its embedded server
automatically.`,
		Example: "  eusn-stream doctor --nats-url nats://127.0.0.1:4222\n  eusn-stream doctor --repair /var/lib/nats",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file")
	f.String("dir", "", "data directory of the embedded server")
	f.String("nats-url", "", "NATS server to check; empty: the embedded one is used")
	f.StringP("job", "j", "", "name of the job whose storage is checked")
	f.StringVar(&store, "repair", "", "restore lost checksums in this store_dir of a stopped NATS server, and do nothing else")
	config.ShowDefaults(f, doctorFlags)
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		if f.Changed("repair") {
			return repairStore(a, store)
		}
		c, err := server.StageConfig(a, file, f, doctorFlags)
		if err != nil {
			return err
		}
		return doctor(ctx, a, c)
	})
	return cmd
}

// repairStore recreates lost checksums of a server's store.
func repairStore(a *cli.App, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "jetstream")); err != nil {
		return cli.Fail(cli.ExitUsage, fmt.Errorf("no store of a NATS server in %q: %w", dir, err), "give the directory that the server's configuration calls store_dir")
	}
	repaired, err := natsserver.Repair(dir)
	if a.JSON {
		if repaired == nil {
			repaired = []string{}
		}
		if err := a.PrintJSON(map[string]any{"repaired": repaired}); err != nil {
			return err
		}
	} else {
		for _, d := range repaired {
			a.Print("repaired %s", d)
		}
		if len(repaired) == 0 && err == nil {
			a.Print("nothing to repair: every configuration has its checksum")
		}
	}
	return err
}

func doctor(ctx context.Context, a *cli.App, c config.Config) error {
	b, nats, next := openServer(ctx, a, c)
	if b != nil {
		defer b.Close()
	}
	diskStatus, diskUse := disk.CheckDisk(ctx, b, c)
	found := []Finding{checkCPU(), checkMemory(), checkGPU(), checkDir(c, b), nats, checkJob(ctx, b, c), checkConsumers(ctx, b, c), {"disk", diskStatus, diskUse}}
	if a.JSON {
		if err := a.PrintJSON(found); err != nil {
			return err
		}
	}
	problems := 0
	for _, f := range found {
		if f.Status == "problem" {
			problems++
		}
		if !a.JSON {
			a.Print("%-8s %-9s %s", f.Status, f.Subject, f.Sentence)
		}
	}
	switch {
	case next != "":
		return cli.Fail(cli.ExitUnreachable, errors.New(nats.Sentence), next)
	case problems > 0:
		return fmt.Errorf("%d problem(s) found", problems)
	}
	return nil
}

// checkCPU reports the engine and the processor.
func checkCPU() Finding {
	s := fmt.Sprintf("%d cores usable, %s/%s", runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH)
	if names := hardware.CPUFeatures(); len(names) > 0 {
		s += " with " + strings.Join(names, ", ")
	}
	var kinds []string
	for _, k := range cpu.Kinds(reservoir.Spec{}) {
		kinds = append(kinds, string(k))
	}
	f := Finding{"cpu", "ok", fmt.Sprintf("%s; engines: %s.", s, strings.Join(kinds, ", "))}
	if kinds[0] == "generic" {
		f.Status = "note"
		f.Sentence += " No vector engine is available, so the much slower plain Go engine is used. Vector engines need AVX2 and FMA (amd64) or NEON (arm64), and a build without the tag purego."
	}
	return f
}

func checkMemory() Finding {
	total, available := hardware.Memory()
	if total == 0 {
		return Finding{"memory", "note", "the amount of memory cannot be read on this system."}
	}
	const gib = 1 << 30
	f := Finding{"memory", "ok", fmt.Sprintf("%.1f GiB, of which %.1f GiB are free.", float64(total)/gib, float64(available)/gib)}
	if available < gib/2 {
		f.Status = "note"
		f.Sentence += " That is low: many streams of a large model may not fit."
	}
	return f
}

// checkDir tries to write where the embedded server would.
func checkDir(c config.Config, b *server.Broker) Finding {
	if c.NATS.URL != "" {
		return Finding{"directory", "ok", "not needed: the NATS server stores the data."}
	}
	dir := c.Server.Dir
	probe := disk.Existing(dir)
	f, err := os.CreateTemp(probe, ".eusn-doctor-*")
	if err != nil {
		return Finding{"directory", "problem", fmt.Sprintf("%s cannot be written: %s.", dir, cli.ErrorText(err))}
	}
	_, err = f.Write(make([]byte, 64<<10)) // an empty file can be made on a full disk
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err != nil {
		return Finding{"directory", "problem", fmt.Sprintf("%s: %s.", dir, cli.ErrorText(err))}
	}
	if probe != dir {
		return Finding{"directory", "ok", fmt.Sprintf("%s does not exist yet and can be created.", dir)}
	}
	if there, err := os.Stat(dir); err == nil && there.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return Finding{"directory", "note", fmt.Sprintf("%s is writable, but other users of this machine can read it (mode %04o): chmod 700 %s.", dir, there.Mode().Perm(), cli.QuoteForShell(dir))}
	}
	if b != nil && b.Embedded == nil && natsserver.HasStore(dir) {
		return Finding{"directory", "ok", fmt.Sprintf("%s is writable, and in use by a running stage.", dir)}
	}
	return Finding{"directory", "ok", fmt.Sprintf("%s is writable.", dir)}
}

// openServer opens the server of the job, and checks it. The server is nil if there is
// none. next is the advice if a configured server does not answer.
func openServer(ctx context.Context, a *cli.App, c config.Config) (b *server.Broker, f Finding, next string) {
	if c.NATS.URL != "" {
		b = &server.Broker{Dial: func(ctx context.Context, name string) (*nats.Conn, error) {
			return natsclient.Connect(ctx, server.NATSOptions(c.NATS, name, nil))
		}}
		f, next = checkNATS(ctx, b, c)
		return b, f, next
	}
	b, err := server.OpenJob(ctx, a, c, server.Need{}, a.Logger("error", c.Log.Format))
	failure := new(cli.Failure)
	switch {
	case err == nil:
		f, next = checkNATS(ctx, b, c)
	case !natsserver.HasStore(c.Server.Dir):
		return nil, Finding{"nats", "ok", "no URL is configured, and no stage is running here: run starts an embedded server."}, ""
	case errors.Is(err, natsserver.ErrInUse):
		return nil, Finding{"nats", "note", cli.ErrorText(err) + "; that process accepts no connections, so the job was not checked."}, ""
	case errors.As(err, &failure) && failure.Code == cli.ExitUnreachable:
		return nil, Finding{"nats", "problem", cli.ErrorText(err)}, failure.Next
	default:
		return nil, Finding{"nats", "problem", cli.ErrorText(err) + "."}, ""
	}
	if b.Embedded != nil {
		f.Sentence = "no stage is running; of the embedded server's data: " + f.Sentence
	}
	return b, f, next
}

// checkNATS connects and reads the account's limits. next is the advice if the server
// does not answer.
func checkNATS(ctx context.Context, b *server.Broker, c config.Config) (f Finding, next string) {
	nc, err := b.Dial(ctx, "eusn-doctor")
	if err != nil {
		return Finding{"nats", "problem", cli.ErrorText(err)}, server.ConnectHint(err, "start that server, or omit --nats-url to use the embedded one")
	}
	defer nc.Close()
	f = Finding{"nats", "ok", fmt.Sprintf("server %s %s, messages up to %d KiB", nc.ConnectedServerName(), nc.ConnectedServerVersion(), nc.MaxPayload()>>10)}
	limits, lacks, err := accountLimits(ctx, nc, c.Job)
	if err != nil {
		return Finding{"nats", "problem", f.Sentence + "; JetStream does not answer: " + cli.ErrorText(err) + " (check that it is enabled on the server and for this account)."}, ""
	}
	f.Sentence += limits
	if need := server.PipelineConfig(c).MinPayload(); int(nc.MaxPayload()) < need {
		lacks += fmt.Sprintf(" input.max_message of %d bytes needs a server whose max_payload is %d or more.", c.Input.MaxMessage, need)
	}
	if lacks != "" {
		f.Status = "problem"
	}
	f.Sentence += lacks
	return f, ""
}

// accountLimits returns the limits, and the shortage for a job that does not exist yet.
func accountLimits(ctx context.Context, nc *nats.Conn, job string) (limits, lacks string, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return "", "", err
	}
	_, err = admin.Open(ctx, js, job)
	if most := info.Limits.MaxStreams; most >= 0 && most-info.Streams < store.JobStreams && errors.Is(err, admin.ErrNoJob) {
		lacks = fmt.Sprintf(" The job %q does not exist yet and needs %d streams.", job, store.JobStreams)
	}
	limit := func(v int64, unit string) string {
		if v < 0 {
			return "unlimited " + unit
		}
		return fmt.Sprintf("%d %s", v, unit)
	}
	return fmt.Sprintf("; JetStream: %d streams of %s, %d bytes stored of %s.",
		info.Streams, limit(int64(info.Limits.MaxStreams), "streams"), info.Store, limit(info.Limits.MaxStore, "bytes")), lacks, nil
}

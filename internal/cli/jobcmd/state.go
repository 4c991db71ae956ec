package jobcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// maxStateFile limits the size of files that diff and import read into memory.
const maxStateFile = 8 << 30

// NewState returns "state" and its subcommands, including commands of other packages.
func NewState(a *cli.App, more ...*cobra.Command) *cobra.Command {
	all := []*cobra.Command{newStateExport(a), newStateImport(a), newStateVerify(a)}
	return cli.Group("state", "Inspect, move and verify the states of a job's streams", append(all, more...)...)
}

// ShowSnapshot prints the streams in a partition's snapshot, or one stream.
func ShowSnapshot(ctx context.Context, a *cli.App, js jetstream.JetStream, job string, args []string) error {
	j, err := admin.Open(ctx, js, job)
	if err != nil {
		return err
	}
	s, err := stateOf(ctx, j, args)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(s)
	}
	noun := "streams"
	if len(s.Streams) == 1 {
		noun = "stream"
	}
	a.Print("partition %d after input message %d: %d %s", s.Partition, s.InSeq, len(s.Streams), noun)
	for _, st := range s.Streams {
		a.Print("%s/%s  seq %d  samples %d  held %d  integrity %s  flags %q  state %s", st.Key, st.ID, st.LastSeq, st.Samples, st.Held, st.Integrity, st.Flags, st.Digest)
	}
	return nil
}

// stateOf reads what the arguments of state show name.
func stateOf(ctx context.Context, j *admin.Job, args []string) (admin.PartitionState, error) {
	p, err := strconv.Atoi(args[0])
	switch {
	case err != nil && len(args) == 2:
		_, err := partitionNumber(args[0])
		return admin.PartitionState{}, err
	case err != nil:
		return findStream(ctx, j, args[0])
	}
	s, err := readSnapshot(ctx, j, p)
	if err == nil && len(args) == 2 {
		if s.Streams = named(s.Streams, args[1]); len(s.Streams) == 0 {
			err = fmt.Errorf("partition %d has no stream %q in its snapshot", p, args[1])
		}
	}
	return s, err
}

// findStream looks for a stream in the partition of its key, and then in all
// partitions, because a gateway's key may have many streams.
func findStream(ctx context.Context, j *admin.Job, name string) (admin.PartitionState, error) {
	key, _, _ := strings.Cut(name, "/")
	own := j.PartitionOf(key)
	order := []int{own}
	for p := range j.NumPartitions() {
		if p != own {
			order = append(order, p)
		}
	}
	for _, p := range order {
		st, err := j.Status(ctx, p)
		if err != nil {
			return admin.PartitionState{}, err
		}
		if st.Snapshot == "" {
			continue
		}
		s, err := readSnapshot(ctx, j, p)
		if err != nil {
			return s, err
		}
		if s.Streams = named(s.Streams, name); len(s.Streams) > 0 {
			return s, nil
		}
	}
	return admin.PartitionState{}, cli.Fail(cli.ExitFailure, fmt.Errorf("no snapshot of the job has a stream %q", name),
		"eusn-stream status --partitions, which shows the age of each snapshot; a stream appears with the next one")
}

// named are the streams of a name: their own, their key's, or key/stream.
func named(all []admin.StreamState, name string) (those []admin.StreamState) {
	for _, st := range all {
		if st.ID == name || st.Key == name || st.Key+"/"+st.ID == name {
			those = append(those, st)
		}
	}
	return those
}

func readSnapshot(ctx context.Context, j *admin.Job, p int) (admin.PartitionState, error) {
	b, err := operate.Snapshot(ctx, j.JS(), j.Name(), p)
	if err != nil {
		return admin.PartitionState{}, err
	}
	return admin.ReadState(b)
}

// partitionNumber reads an argument.
func partitionNumber(text string) (int, error) {
	p, err := strconv.Atoi(text)
	if err != nil {
		return 0, cli.Fail(cli.ExitUsage, fmt.Errorf("partition %q, want a number", text), "eusn-stream status --partitions, which lists them")
	}
	return p, nil
}

// DiffStates compares two exported states, stream by stream.
func DiffStates(a *cli.App, one, two string) error {
	var all [2]map[string]string
	for i, name := range []string{one, two} {
		b, err := readStateFile(name)
		if err != nil {
			return err
		}
		s, err := admin.ReadState(b)
		if err != nil {
			return ofState(fmt.Errorf("%s: %w", name, err))
		}
		all[i] = map[string]string{}
		for _, st := range s.Streams {
			all[i][st.Key+"/"+st.ID] = st.Digest
		}
	}
	either := maps.Clone(all[0])
	maps.Copy(either, all[1])
	differ := 0
	for _, id := range slices.Sorted(maps.Keys(either)) {
		if d, other := all[0][id], all[1][id]; d != other {
			differ++
			a.Print("%s  %s  %s", id, cmp.Or(d, "-"), cmp.Or(other, "-"))
		}
	}
	if differ > 0 {
		return fmt.Errorf("%d streams differ", differ)
	}
	a.Say("all streams are equal")
	return nil
}

// ofState sets exit code 5 for files that are no states. Damaged snapshots of a stage
// stop partitions, which is a failure with another code.
func ofState(err error) error {
	if errors.Is(err, admin.ErrState) {
		return cli.Fail(cli.ExitIntegrity, err, "another file, or eusn-stream state export, which writes it again")
	}
	return err
}

func readStateFile(name string) ([]byte, error) {
	if err := cli.WholeFile(name); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, err, "eusn-stream state export, which writes such files")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxStateFile+1))
	if err == nil && int64(len(b)) > maxStateFile {
		err = fmt.Errorf("%s: more than %d bytes", name, int64(maxStateFile))
	}
	return b, err
}

func newStateExport(a *cli.App) *cobra.Command {
	var dir string
	cmd := server.JobCommand(a, &cobra.Command{
		Use:   "export",
		Short: "Write the snapshots of a job to files, p<n>.state, one per partition",
		Long: `Write the current snapshot of each partition to a file. To export everything up to
now, stop the stage first: it stores its last states. The files contain samples, so
only their owner can read them.`,
		Example: "  eusn-stream state export --dir eusn-data -o states",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		j, err := admin.Open(ctx, js, c.Job)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		written := 0
		for p := range j.NumPartitions() {
			s, err := j.Status(ctx, p)
			if err != nil {
				return err
			}
			if s.Snapshot == "" {
				continue
			}
			b, err := operate.Snapshot(ctx, js, c.Job, p)
			if err != nil {
				return err
			}
			if err := cli.ReplaceFile(filepath.Join(dir, fmt.Sprintf("p%d.state", p)), b, cli.Private); err != nil {
				return err
			}
			written++
		}
		a.Say("%d of %d partitions have a snapshot; written to %s", written, j.NumPartitions(), dir)
		return nil
	})
	cmd.Flags().StringVarP(&dir, "output", "o", "states", "directory")
	return cmd
}

func newStateImport(a *cli.App) *cobra.Command {
	return server.JobCommand(a, &cobra.Command{
		Use:   "import FILE...",
		Short: "Start a new job from exported states",
		Long: `Start a job that has not run yet from the states of another job: streams continue in
the middle of their sequences. The new job needs the same network (its readout may
be another one) and the same number of partitions (stage.partitions).`,
		Example: "  eusn-stream state import states/*.state -c new.yaml --job new",
		Args:    cobra.MinimumNArgs(1),
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		conf, err := ofJob(ctx, c, js)
		if err != nil {
			return err
		}
		of, networks := map[int]string{}, map[string]string{} // all files are checked before any import: a begun job cannot begin a second time
		for _, name := range args {
			b, err := readStateFile(name)
			if err != nil {
				return err
			}
			p, network, err := operate.CheckImport(conf, b)
			if err != nil {
				return ofState(fmt.Errorf("%s: %w; nothing was imported", name, err))
			}
			if other, twice := of[p]; twice {
				return fmt.Errorf("%s and %s both hold partition %d; nothing was imported", other, name, p)
			}
			of[p], networks[network] = name, name
		}
		if len(networks) > 1 {
			one := slices.Sorted(maps.Values(networks))
			return fmt.Errorf("%s and %s differ in network, policy, channels or arithmetic, but a job runs one model; nothing was imported", one[0], one[1])
		}
		for _, name := range args {
			b, err := readStateFile(name)
			if err != nil {
				return err
			}
			if err := operate.Import(ctx, js, conf, b); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
				if errors.Is(err, pipeline.ErrOtherModel) {
					err = cli.Fail(cli.ExitOtherModel, err, "--job with a new name")
				}
				return err
			}
		}
		a.Say("%d partitions imported into job %s", len(args), c.Job)
		return nil
	})
}

// ofJob returns the pipeline's configuration, with the partitions of an existing job if
// the file leaves them open.
func ofJob(ctx context.Context, c config.Config, js jetstream.JetStream) (pipeline.Config, error) {
	conf := server.PipelineConfig(c)
	if conf.Partitions > 0 {
		return conf, nil
	}
	j, err := admin.Open(ctx, js, c.Job)
	switch {
	case err == nil:
		conf.Partitions = j.NumPartitions()
	case !errors.Is(err, admin.ErrNoJob):
		return conf, err
	}
	return conf, nil
}

func newStateVerify(a *cli.App) *cobra.Command {
	cmd := server.JobCommand(a, &cobra.Command{
		Use:   "verify [PARTITION...]",
		Short: "Rebuild partitions from snapshot and input, and compare them with the committed state",
		Long: `Rebuild the state of each partition from its snapshot and the input after it, and
compare its digest with the committed one. A running stage is not affected. Use the
stage's configuration and model.`,
		Example: `  eusn-stream state verify --model m.safetensors --nats-url nats://127.0.0.1:4222
  eusn-stream state verify 0 7 -c eusn-stream.yaml`,
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		m, _, err := server.JobModel(ctx, a, js, c)
		if err != nil {
			return err
		}
		j, err := admin.Open(ctx, js, c.Job)
		if err != nil {
			return err
		}
		which := args
		if len(which) == 0 {
			for p := range j.NumPartitions() {
				which = append(which, strconv.Itoa(p))
			}
		}
		conf := server.PipelineConfig(c)
		conf.Partitions = j.NumPartitions()
		var all []replay.Verification
		for _, text := range which {
			p, err := partitionNumber(text)
			if err != nil {
				return err
			}
			v, err := replay.Verify(ctx, js, &pipeline.Job{Config: conf, Model: m, NewEngine: engines.New(c.Stage.Engine)}, p)
			if err != nil {
				return err
			}
			all = append(all, v)
		}
		if a.JSON {
			return a.PrintJSON(all)
		}
		for _, v := range all {
			if v.InSeq == 0 {
				a.Print("partition %d: no input yet", v.Partition)
				continue
			}
			a.Print("partition %d: equal up to input message %d, %d messages replayed, digest %s", v.Partition, v.InSeq, v.Replayed, v.Digest)
		}
		return nil
	})
	cmd.Flags().StringP("model", "m", "", "model file of the stage (default the job's model, of its registry)")
	return cmd
}

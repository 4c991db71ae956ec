package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

// NewRegistry returns the "model" commands for the models of a job.
func NewRegistry(a *cli.App) []*cobra.Command {
	return []*cobra.Command{newModelPublish(a), newModelList(a), newModelShow(a), newModelRetire(a), newModelPromote(a), newModelRollback(a), newModelShadow(a)}
}

// registryCommand makes a command that works with the models of a job.
func registryCommand(a *cli.App, cmd *cobra.Command, run func(ctx context.Context, js jetstream.JetStream, job string, args []string) error) *cobra.Command {
	with := server.Beside{As: "models", Failure: registryFailure}
	return server.RunningCommand(a, cmd, with, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		return run(ctx, js, c.Job, args)
	})
}

// registryFailure gives an error its exit code and next step.
func registryFailure(err error) error {
	switch {
	case errors.Is(err, registry.ErrNone):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream model publish FILE, with the job's model, which makes the registry; or start a worker of this version")
	case errors.Is(err, registry.ErrNoEntry):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream model list")
	case errors.Is(err, registry.ErrDamaged):
		return cli.Fail(cli.ExitIntegrity, err, "eusn-stream model publish FILE, with the same model file")
	case errors.Is(err, registry.ErrOtherNetwork):
		return cli.Fail(cli.ExitOtherModel, err, "eusn-stream model show active --output FILE, which writes the job's model to a file to compare with; or a new job: eusn-stream run --job NEW")
	}
	return cli.Fail(cli.ExitFailure, err, "eusn-stream doctor; the role operator may change models, the role analyst may read them (docs/secure.md)")
}

// whoOr returns the named person, or the user of this machine.
func whoOr(who string) (string, error) {
	if who != "" {
		return who, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", cli.Fail(cli.ExitUsage, fmt.Errorf("--who is required, because the user of this machine is unknown: %w", err), "--who NAME")
	}
	return u.Username, nil
}

func newModelPublish(a *cli.App) *cobra.Command {
	var readoutName, who, note, parent string
	cmd := registryCommand(a, &cobra.Command{
		Use:   "publish FILE",
		Short: "Store a model in the registry of a job",
		Long: `Store a model in the registry of a job, under the fingerprint of its readout, which
is printed. The job's predictions do not change.

The model must have the job's network: the same weights, input scaling, channels,
policy and front end, so that it can continue with the states of the job. An entry never
changes: publishing the same readout again stores nothing.`,
		Example: `  eusn-stream model publish m.safetensors --job eusn --note "with the pumps of hall 2"`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, js jetstream.JetStream, job string, args []string) error {
		m, err := models.Load(args[0])
		if err != nil {
			return err
		}
		l := registry.Lineage{When: registry.Now(), Command: "eusn-stream model publish " + filepath.Base(args[0]), Note: note}
		if l.Who, err = whoOr(who); err != nil {
			return err
		}
		r, err := registry.Make(ctx, js, job)
		if err != nil {
			return err
		}
		if parent != "" {
			if l.Parent, err = r.Resolve(ctx, parent); err != nil {
				return err
			}
		} else if active, err := r.Active(ctx); err == nil {
			l.Parent = active.Fingerprint
		}
		e, stored, err := r.Publish(ctx, m, filepath.Base(args[0]), readoutName, l)
		if err != nil {
			return err
		}
		if stored {
			a.Say("published; eusn-stream model promote has it predict")
		} else {
			a.Say("the registry has this readout since %s, from %s; nothing is changed", e.When.UTC().Format(time.RFC3339), e.Who)
		}
		if a.JSON {
			return a.PrintJSON(e)
		}
		a.Print("%s", e.Fingerprint)
		return nil
	})
	f := cmd.Flags()
	f.StringVar(&readoutName, "readout", "", "which of the model's readouts (default its first)")
	f.StringVar(&who, "who", "", "who publishes it (default the user of this machine)")
	f.StringVar(&note, "note", "", "what people should know about it, one line")
	f.StringVar(&parent, "parent", "", "fingerprint of the model that it is made from (default the one that predicts)")
	return cmd
}

// listedModel is an entry in a list.
type listedModel struct {
	registry.Entry
	Active bool `json:"active"` // the job predicts with it
}

func newModelList(a *cli.App) *cobra.Command {
	return registryCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List the models in the registry of a job",
		Long: `List the models in the registry of a job, the first published first: fingerprint of the
readout, when it was published, by whom, the file and readout, what it was trained on,
and the note. "active" is the one that the job predicts with. The content is not read: model show checks it.`,
		Example: "  eusn-stream model list --job eusn",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, js jetstream.JetStream, job string, _ []string) error {
		r, err := registry.Open(ctx, js, job)
		if err != nil {
			return err
		}
		all, err := r.List(ctx)
		if err != nil {
			return err
		}
		active, err := r.Active(ctx)
		if err != nil && !errors.Is(err, registry.ErrNoEntry) && !errors.Is(err, registry.ErrDamaged) {
			return err
		}
		list := make([]listedModel, len(all))
		for i, e := range all {
			list[i] = listedModel{e, e.Fingerprint == active.Fingerprint}
		}
		if a.JSON {
			return a.PrintJSON(list)
		}
		for _, l := range list {
			a.Print("%s", l.line())
		}
		a.SayNone(len(list), "models")
		return nil
	})
}

// line is an entry for people.
func (l *listedModel) line() string {
	if l.Damage != "" {
		return fmt.Sprintf("%s  damaged  %s", l.Fingerprint, l.Damage)
	}
	text := fmt.Sprintf("%s  %-7s  %s  %s  %s (%s)", l.Fingerprint, l.state(), l.When.UTC().Format(time.RFC3339), term.OneField(l.Who), term.OneField(l.Model), term.OneField(l.Readout))
	if l.Training.Dataset != "" {
		text += fmt.Sprintf("  %s, alpha %s", term.OneField(l.Training.Dataset), l.Training.Alpha)
	}
	if l.Note != "" {
		text += "  " + l.Note
	}
	return text
}

// state describes whether an entry may be used.
func (l *listedModel) state() string {
	switch {
	case l.Active:
		return "active"
	case l.Retired != nil:
		return "retired"
	}
	return "ready"
}

func newModelShow(a *cli.App) *cobra.Command {
	var out string
	cmd := registryCommand(a, &cobra.Command{
		Use:   "show [FILE | FINGERPRINT]",
		Short: "Show a model file, or a model in the registry of a job",
		Long: `Show what a model file holds. Or read a model from the registry of a job, check it, and
print where it comes from and what it holds. The first digits of the fingerprint suffice;
"active", which may be left out, is the model that the job predicts with. --output writes
the model of a registry to a file.`,
		Example: "  eusn-stream model show demo-data/machine.safetensors\n  eusn-stream model show active --job eusn --output m.safetensors\n  eusn-stream model show 3f9a01",
		Args:    cobra.MaximumNArgs(1),
	}, func(ctx context.Context, js jetstream.JetStream, job string, args []string) error {
		r, err := registry.Open(ctx, js, job)
		if err != nil {
			return err
		}
		print, err := resolve(ctx, r, strings.Join(args, ""))
		if err != nil {
			return err
		}
		m, _, e, err := r.Model(ctx, print)
		if err != nil {
			return err
		}
		if out != "" {
			if err := cli.OutputFile(out); err != nil {
				return err
			}
			if err := m.Save(out); err != nil {
				return err
			}
			a.Say("%s written", out)
		}
		return printEntry(a, e, func() (models.Report, error) { return models.Describe(m, e.Model) })
	})
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the model of a registry to this file")
	registered := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || !namesFile(args[0]) {
			return registered(cmd, args)
		}
		return a.Do(func(context.Context, []string) error { return models.Show(a, args[0]) })(cmd, args)
	}
	return cmd
}

// namesFile reports whether an argument names a model file, not a fingerprint.
func namesFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil || strings.ContainsAny(name, `./\`)
}

// resolve finds the entry that a user names.
func resolve(ctx context.Context, r *registry.Models, name string) (string, error) {
	if name == "active" || name == "" {
		e, err := r.Active(ctx)
		return e.Fingerprint, err
	}
	return r.Resolve(ctx, name)
}

func printEntry(a *cli.App, e registry.Entry, describe func() (models.Report, error)) error {
	report, err := describe()
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(struct {
			registry.Entry
			Holds models.Report `json:"model_file"`
		}{e, report})
	}
	row := func(name, text string) {
		if text != "" {
			a.Print("%-10s %s", name, text)
		}
	}
	row("entry", e.Fingerprint)
	row("published", strings.TrimSpace(e.When.UTC().Format(time.RFC3339)+" by "+e.Who))
	row("note", e.Note)
	row("command", e.Command)
	row("parent", e.Parent)
	if e.Retired != nil {
		row("retired", strings.TrimSpace(fmt.Sprintf("%s by %s %s", e.Retired.When.UTC().Format(time.RFC3339), e.Retired.Who, e.Retired.Note)))
	}
	models.Print(a, report)
	return nil
}

func newModelRetire(a *cli.App) *cobra.Command {
	var who, note string
	var dry bool
	cmd := registryCommand(a, &cobra.Command{
		Use:   "retire FINGERPRINT",
		Short: "Mark a model of a job that should not be used any more",
		Long: `Mark a model in the registry of a job as one that should not be used any more. It stays
in the registry and can be read. The model that the job predicts with cannot be
retired. A shadow that is retired ends.`,
		Example: `  eusn-stream model retire 3f9a01 --job eusn --note "trained on wrong labels"`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, js jetstream.JetStream, job string, args []string) error {
		by := registry.Retirement{When: registry.Now(), Note: note}
		var err error
		if by.Who, err = whoOr(who); err != nil {
			return err
		}
		r, err := registry.Open(ctx, js, job)
		if err != nil {
			return err
		}
		print, err := resolve(ctx, r, args[0])
		if err != nil {
			return err
		}
		if dry {
			return printRetirement(ctx, a, js, r, job, print)
		}
		if err := r.Retire(ctx, print, by); err != nil {
			return err
		}
		if _, err := operate.EndShadow(ctx, js, job, print); err == nil {
			a.Say("it was a shadow, which has ended, too")
		} else if !errors.Is(err, operate.ErrNoShadow) {
			return err
		}
		a.Say("%s is retired", print)
		return nil
	})
	cmd.Flags().StringVar(&who, "who", "", "who retires it (default the user of this machine)")
	cmd.Flags().StringVar(&note, "note", "", "why, one line")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show the entry that would be retired")
	return cmd
}

// printRetirement checks and prints an entry that would be retired.
func printRetirement(ctx context.Context, a *cli.App, js jetstream.JetStream, r *registry.Models, job, print string) error {
	e, err := r.CheckRetire(ctx, print)
	if err != nil {
		return err
	}
	shadows, err := operate.ShadowsOf(ctx, js, job)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(listedModel{e, false})
	}
	a.Print("%s", (&listedModel{e, false}).line())
	if slices.ContainsFunc(shadows, func(s operate.Shadow) bool { return s.Readout == print }) {
		a.Say("this shadow would end")
	}
	a.Say("nothing was changed")
	return nil
}

package configcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const defaultConfigFile = "eusn-stream.yaml"

// NewCommand returns the command "config" with its subcommands. checkGateway reports errors in the
// configuration of a gateway.
func NewCommand(a *cli.App, checkGateway func(config.Config) error) *cobra.Command {
	return cli.Group("config", "Write and check configuration files", newConfigInit(a), newConfigCheck(a, checkGateway), newConfigSchema(a))
}

func newConfigInit(a *cli.App) *cobra.Command {
	var force, full bool
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented configuration file",
		Long: `Write a commented configuration file with the keys that most installations set, and
their defaults; with --full, every key.`,
		Example: "  eusn-stream config init eusn-stream.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.Do(func(_ context.Context, args []string) error {
			return configInit(a, fileArg(args), force, full)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	cmd.Flags().BoolVar(&full, "full", false, "write every key")
	return cmd
}

// NewSecure returns the command "secure" with its subcommand.
func NewSecure(a *cli.App) *cobra.Command {
	var o secureOptions
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Create a configuration, certificates and users for a server that other machines reach",
		Long: `Create what the embedded server needs so that other machines may connect, in the folder
eusn-secure next to the configuration FILE: an authority (ca.pem, ca.key), a certificate of
the server for the names and addresses of this machine, and a user with a password for each
role: sensor, gateway, stage, reader, analyst, labeler, alarms, operator; and the logins of
the metrics port. All files are for their owner only. It replaces nothing: if FILE exists, it
prints what to put into it.

--renew creates a new certificate of the server with the same authority. Users and clients
stay as they are. docs/secure.md has all of it.`,
		Example: "  eusn-stream secure init --host plant.example --host 10.0.0.5\n  eusn-stream secure init --renew",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.Do(func(_ context.Context, args []string) error {
			return initSecure(a, fileArg(args), o)
		}),
	}
	cmd.Flags().BoolVar(&o.renew, "renew", false, "only create a new certificate of the server")
	cmd.Flags().StringArrayVar(&o.hosts, "host", nil, "a name or address under which clients reach the server; may be repeated (default the names and addresses of this machine)")
	return cli.Group("secure", "Create certificates and users", cmd)
}

func fileArg(args []string) string {
	if len(args) == 0 {
		return defaultConfigFile
	}
	return args[0]
}

func configInit(a *cli.App, path string, force, full bool) error {
	if err := cli.MayWrite(path, force); err != nil {
		return err
	}
	text := config.BasicYAML()
	if full {
		text = config.DefaultYAML
	}
	if err := cli.ReplaceFile(path, text, cli.Public); err != nil {
		return cli.Fail(cli.ExitFailure, err, "choose another name")
	}
	a.Say("wrote %s", path)
	return nil
}

func newConfigCheck(a *cli.App, checkGateway func(config.Config) error) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file; start nothing, connect to nothing",
		Long: `Check a configuration file as "run" would read it, environment included: keys,
types, ranges, inputs of the gateway, alarm rules, where alarms are sent. A rule with a class that the model
file does not have is an error, and a rule whose alarm that model never raises is a
warning. If the model cannot be read, classes are not checked, which is a warning.
Nothing is started and nothing is connected to. With --json, each problem has its
key, place, wanted value and message.`,
		Example: "  eusn-stream config check configs/embedded.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.Do(func(_ context.Context, args []string) error {
			return configCheck(a, fileArg(args), checkGateway)
		}),
	}
}

func configCheck(a *cli.App, path string, checkGateway func(config.Config) error) error {
	c, err := Load(path, nil, nil)
	var warnings []string
	if err == nil {
		wrong := append(checkRules(c.Alarms.Rules.Map()), splitErrors(CheckOutputs(c.Alarms))...)
		foreign, never := compareRules(c)
		if err := checkGateway(c); err != nil {
			wrong = append(wrong, err)
		}
		wrong, warnings = append(wrong, foreign...), append(c.Warnings(), never...)
		err = cli.Fail(cli.ExitConfig, errors.Join(wrong...), "docs/alarm-rules.md describes rules, docs/alarms.md where alarms can be sent; docs/gateway.md has the inputs")
	}
	if a.JSON {
		report := struct {
			File     string    `json:"file"`
			OK       bool      `json:"ok"`
			Problems []problem `json:"problems"`
		}{path, err == nil, []problem{}}
		if err != nil {
			for _, e := range splitErrors(errors.Unwrap(err)) {
				report.Problems = append(report.Problems, problemOf(e))
			}
		}
		if err := a.PrintJSON(report); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Model); err != nil {
		a.Say("note: model file %s does not exist: is the path right? eusn-stream train writes a model, eusn-stream demo one to try", c.Model)
	}
	if need := store.ConsumersFor(c.Stage.Partitions); c.NATS.URL != "" && need > store.UsualConsumers {
		a.Say("note: stage.partitions: %d partitions need up to %d consumers of their input, and a NATS server allows %d where nobody sets a limit. The stage creates the input with max_consumers %d; the account, and an input that you create, must allow %d or more: eusn-stream doctor asks the server", c.Stage.Partitions, need, store.UsualConsumers, store.MaxConsumers, need)
	}
	for _, w := range warnings {
		a.Say("warning: %s", w)
	}
	if !a.JSON {
		a.Print("%s: ok", path)
	}
	return nil
}

// ruleError is an error in an alarm rule. Loading a configuration does not detect such errors,
// because the stage does not read rules.
type ruleError struct {
	name, text string
	err        error
}

func (e *ruleError) Error() string { return "key alarms.rules: " + e.err.Error() }

func (e *ruleError) Unwrap() error { return e.err }

// checkRules returns the error of each invalid rule.
func checkRules(texts map[string]string) (all []error) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if _, err := alarm.ParseRule(name, texts[name]); err != nil {
			all = append(all, &ruleError{name, texts[name], err})
		}
	}
	return all
}

// compareRules compares the alarm rules with the configuration's model. The errors are about
// rules with a class unknown to the model; the warnings are about alarms that the model never
// raises, and about unchecked classes if the model cannot be read.
func compareRules(c config.Config) (wrong []error, warnings []string) {
	rules, err := alarm.ParseRules(c.Alarms.Rules.Map())
	if err != nil {
		return nil, nil
	}
	var never []alarm.Unreachable
	m, err := reservoir.Load(c.Model)
	if err == nil {
		never, err = rules.UnreachableBy(m.Readouts, c.Stage.Readout)
	}
	if err != nil {
		for _, n := range rules.Unreachable(alarm.Capabilities{}) {
			if n.Class != "" {
				return nil, []string{fmt.Sprintf("key alarms.rules: the classes that rules name could not be checked: %s", cli.ErrorText(err))}
			}
		}
		return nil, nil
	}
	for _, n := range never {
		if n.Class == "" {
			warnings = append(warnings, fmt.Sprintf("key alarms.rules.%s: %s", n.Rule, n.Why))
			continue
		}
		wrong = append(wrong, &ruleError{n.Rule, c.Alarms.Rules.Map()[n.Rule], errors.New(n.String())})
	}
	return wrong, warnings
}

// problem is one error in the output of --json. Unknown fields are omitted.
type problem struct {
	Key         string `json:"key,omitempty"` // as in the file, with its groups: stage.rows
	File        string `json:"file,omitempty"`
	Line        int    `json:"line,omitempty"`        // in File, from 1
	Environment string `json:"environment,omitempty"` // variable with the value
	Want        string `json:"want,omitempty"`
	Got         string `json:"got,omitempty"`
	Nearest     string `json:"nearest,omitempty"` // the known key most similar to an unknown key
	Message     string `json:"message"`           // the message printed without --json
}

func problemOf(err error) problem {
	p := problem{Message: cli.ErrorText(err)}
	setSource := func(s config.Source) { p.File, p.Line, p.Environment = s.File, s.Line, s.Env }
	var field *config.FieldError
	var unknown *config.UnknownKeyError
	var file *config.FileError
	var rule *ruleError
	var output *outputError
	switch {
	case errors.As(err, &output): // not the value, which may contain a password
		p.Key = output.key
	case errors.As(err, &rule):
		p.Key, p.Got = "alarms.rules."+rule.name, rule.text
	case errors.As(err, &field):
		p.Key, p.Want, p.Got = field.Key, field.Want, field.Value
		setSource(field.Source)
	case errors.As(err, &unknown):
		p.Key, p.Want, p.Nearest = unknown.Key, "a key that exists", unknown.Nearest
		setSource(unknown.Source)
	case errors.As(err, &file):
		p.File, p.Line = file.File, file.Line
	}
	return p
}

// splitErrors returns the parts of a joined error.
func splitErrors(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func newConfigSchema(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Long: `Print the JSON Schema (draft 2020-12) of the configuration file: every key, its
type, values, default and description. With it, editors complete and check the
file: docs/configuration.md says how.`,
		Example: "  eusn-stream config schema >eusn-stream.schema.json",
		Args:    cobra.NoArgs,
		RunE: a.Do(func(context.Context, []string) error {
			_, err := a.Stdout.Write(config.Schema)
			return err
		}),
	}
}

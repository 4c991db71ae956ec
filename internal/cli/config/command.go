package config

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

const defaultConfigFile = "eusn-stream.yaml"

func NewCommand(a *cli.App) *cobra.Command {
	return cli.Group("config", "Write and check configuration files", newConfigInit(a), newConfigCheck(a))
}

func newConfigInit(a *cli.App) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "init [FILE]",
		Short:   "Write a commented configuration file with every key and its default",
		Example: "  eusn-stream config init eusn-stream.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.Do(func(_ context.Context, args []string) error {
			return configInit(a, fileArg(args), force)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return cmd
}

func fileArg(args []string) string {
	if len(args) == 0 {
		return defaultConfigFile
	}
	return args[0]
}

func configInit(a *cli.App, path string, force bool) error {
	if err := cli.MayWrite(path, force); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := cli.ReplaceFile(path, defaultYAML, cli.Public); err != nil {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("config: %w", err), "another name")
	}
	a.Say("wrote %s", path)
	return nil
}

func newConfigCheck(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file without starting or connecting to anything",
		Long: `Check a configuration file as "run" would read it, environment included: keys,
types, ranges. Nothing is started and nothing is connected to.`,
		Example: "  eusn-stream config check configs/embedded.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.Do(func(_ context.Context, args []string) error {
			return configCheck(a, fileArg(args))
		}),
	}
}

func configCheck(a *cli.App, path string) error {
	c, err := Load(path, nil, nil)
	if a.JSON {
		out := struct {
			File     string   `json:"file"`
			OK       bool     `json:"ok"`
			Problems []string `json:"problems"`
		}{path, err == nil, []string{}}
		if err != nil {
			for _, e := range parts(errors.Unwrap(err)) {
				out.Problems = append(out.Problems, e.Error())
			}
		}
		if err := a.PrintJSON(out); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Model); err != nil {
		a.Say("note: there is no model file %s yet; eusn-stream offline retrain writes one", c.Model)
	}
	if !a.JSON {
		a.Print("%s: ok", path)
	}
	return nil
}

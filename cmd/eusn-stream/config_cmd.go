package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

const defaultConfigFile = "eusn-stream.yaml"

func newConfig(a *app) *cobra.Command {
	return group("config", "Write and check configuration files", newConfigInit(a), newConfigCheck(a))
}

func newConfigInit(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "init [FILE]",
		Short:   "Write a commented configuration file with every key and its default",
		Example: "  eusn-stream config init eusn-stream.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			return a.configInit(fileArg(args), force)
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

func (a *app) configInit(path string, force bool) error {
	if err := mayWrite(path, force); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := replaceFile(path, defaultYAML, public); err != nil {
		return fail(exitFailure, fmt.Errorf("config: %w", err), "another name")
	}
	a.say("wrote %s", path)
	return nil
}

func newConfigCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file without starting or connecting to anything",
		Long: `Check a configuration file as "run" would read it, environment included: keys,
types, ranges. Nothing is started and nothing is connected to.`,
		Example: "  eusn-stream config check configs/embedded.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			return a.configCheck(fileArg(args))
		}),
	}
}

func (a *app) configCheck(path string) error {
	c, err := loadConfig(path, nil, nil)
	if a.json {
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
		if err := a.printJSON(out); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Model); err != nil {
		a.say("note: there is no model file %s yet; eusn-stream offline retrain writes one", c.Model)
	}
	if !a.json {
		a.print("%s: ok", path)
	}
	return nil
}

package models

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func newModelVerify(a *cli.App) *cobra.Command {
	var want string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a model file: shapes, numbers, and that its seed gives its weights",
		Long: `Check that a model file is complete and undamaged, that its numbers are finite, that
its seed gives the same weights again, and with --sha256 that it is the model you
expect. Exits with 5 if it is not.

The sha256 is computed from the content of the model. Predictions carry it, and the
file holds it to detect damage. It is not the sha256 of the file.`,
		Example: "  eusn-stream model verify demo-data/machine.safetensors",
		Args:    cobra.ExactArgs(1),
		RunE: a.Do(func(_ context.Context, args []string) error {
			return verifyModel(a, args[0], want)
		}),
	}
	cmd.Flags().StringVar(&want, "sha256", "", "sha256 of the model you expect, as model show prints it")
	return cmd
}

func verifyModel(a *cli.App, path, want string) error {
	m, err := Load(path)
	if err != nil {
		return err
	}
	sum, err := m.Fingerprint()
	if err != nil {
		return err
	}
	if want != "" && !strings.EqualFold(want, sum) {
		return cli.Fail(cli.ExitIntegrity, fmt.Errorf("model %s: sha256 is %s, want %s", path, sum, want), "")
	}
	drawn, err := reservoir.Draw(m.Network.Spec)
	if err != nil {
		return err
	}
	redrawn := reflect.DeepEqual(drawn.Members, m.Network.Members)
	if a.JSON {
		if err := a.PrintJSON(map[string]any{"path": path, "sha256": sum, "weights_follow_from_seed": redrawn}); err != nil {
			return err
		}
	}
	if !redrawn {
		return cli.Fail(cli.ExitIntegrity, fmt.Errorf("model %s: its weights differ from those of its seed %d: the file was edited, or made by another program", path, m.Network.Spec.Seed), "")
	}
	if !a.JSON {
		a.Print("%s: ok, sha256 %s", path, sum)
	}
	return nil
}

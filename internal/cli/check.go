package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// errRefused is check's way to exit with 1 after its faults were printed.
var errRefused = errors.New("check: refused; correct the lines above")

// checkCommand is `holdfast check`.
func checkCommand() *cobra.Command {
	var printed, schema bool
	cmd := &cobra.Command{
		Use:   "check [FILE…]",
		Short: "Validate configuration and policy files; --print shows what is in force, --schema the JSON schema",
		Long: `Validate configuration and policy files. Every fault is one line:

  FILE:LINE:COLUMN: PATH: what is wrong; what to write instead

Warnings are marked as such and do not refuse a file. The exit status is 1 when a file is refused. Without FILE it is
holdfast.yaml in the current folder. The ladder of time-outs of each workflow goes to standard output.`,
		Example: `  holdfast check holdfast.yaml policies/*.yaml
  holdfast check --print > effective.yaml
  holdfast check --schema > holdfast.schema.json    # for editors`,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, files []string) error {
			if schema {
				return writeSchema(cmd.OutOrStdout())
			}
			if len(files) == 0 {
				files = []string{"holdfast.yaml"}
			}
			return checkFiles(cmd.OutOrStdout(), cmd.ErrOrStderr(), files, printed)
		},
	}
	cmd.Flags().BoolVar(&printed, "print", false, "print the effective configuration as YAML")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON schema of configuration and policy files")
	cmd.MarkFlagsMutuallyExclusive("print", "schema")
	return cmd
}

func writeSchema(out io.Writer) error {
	b, err := policy.SchemaJSON()
	if err != nil {
		return fmt.Errorf("check: schema: %w", err)
	}
	_, err = out.Write(b)
	return err
}

// checkFiles goes on after a refused file, so that one run shows every fault.
func checkFiles(out, report io.Writer, files []string, printed bool) error {
	refused := false
	for i, file := range files {
		c, faults := policy.Load(filepath.Clean(file), os.LookupEnv)
		if c != nil {
			faults = append(faults, c.CheckFiles(os.Stat)...)
		}
		for _, f := range faults {
			if _, err := fmt.Fprintln(report, f); err != nil {
				return err
			}
		}
		if policy.Refused(faults) {
			refused = true
			continue
		}
		if err := showConfig(out, c, file, printed, i > 0); err != nil {
			return err
		}
	}
	if refused {
		return errRefused
	}
	return nil
}

func showConfig(out io.Writer, c *policy.Config, file string, printed, separate bool) error {
	if printed {
		if separate {
			if _, err := fmt.Fprintln(out, "---"); err != nil {
				return err
			}
		}
		_, err := out.Write(c.Print())
		return err
	}
	if _, err := fmt.Fprintf(out, "%s: ok, revision %s\n", file, c.Revision); err != nil {
		return err
	}
	for i := range c.Workflows {
		if c.PolicyOnly() && c.Workflows[i].Name == policy.DefaultWorkflow && len(c.Workflows) > 1 {
			continue
		}
		if _, err := fmt.Fprintf(out, "  %s\n", c.Workflows[i].Ladder()); err != nil {
			return err
		}
	}
	return nil
}

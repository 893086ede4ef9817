package cli

import "github.com/spf13/cobra"

// mcpCommand is `holdfast mcp`.
func mcpCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "mcp",
		Short: "Guard and examine the write tools of MCP servers",
		Args:  cobra.ArbitraryArgs,
	}, mcpAuditCommand())
}

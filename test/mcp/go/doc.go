// Package mcpclient has the official Go MCP client ask real servers through Holdfast, over every pair of transports.
package mcpclient

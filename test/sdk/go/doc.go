// Package sdk drives a running gateway with the official Go clients, as an application would.
package sdk

// Package replicas runs several real gateways on one Postgres behind a balancer that picks one at random, kills them, stops them,
// cuts them off from the database, and asks a far side with a log of its own what happened. docs/replicas.md says what is checked.
package replicas

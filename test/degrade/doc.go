// Package degrade measures what clients get of a gateway whose tiers fail: from the next tier, the cache, the default answer.
package degrade

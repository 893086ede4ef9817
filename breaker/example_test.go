package breaker_test

import (
	"errors"
	"fmt"

	"github.com/holdfast-ai/holdfast/breaker"
)

func Example() {
	b := breaker.New(breaker.Config{FailureThreshold: 2})
	call := func(provider func() error) error {
		pass, err := b.Acquire()
		if err != nil {
			return err // an *OpenError, which says when to ask again
		}
		result := breaker.Ignored // so that a panic gives a probe's slot back
		defer func() { pass.Done(result) }()
		err = provider()
		if result = breaker.Success; err != nil {
			result = breaker.Failure
		}
		return err
	}
	for range 3 {
		err := call(func() error { return errors.New("bad gateway") })
		fmt.Println(errors.Is(err, breaker.ErrOpen), b.State())
	}
	// Output:
	// false closed
	// false open
	// true open
}

package holdfast

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Operation says what is about to be done, and by that when it is the same as something done before.
type Operation struct {
	// Key is the caller's name for the one effect that is intended, such as "refund:order-17": 1 to 255 visible ASCII
	// characters, unique in its tenant. Without it the key is made of Name, Owner and Arguments, and lasts for the
	// workflow's window; that needs derive: always, the default for what is external.
	Key string
	// Name says what is done, such as "refund". It counts: a key that was used for one thing cannot be used for another.
	// Default: the name of the workflow.
	Name string
	// Workflow is the policy that applies. Default: "default". What its policy does not say is taken from an external effect.
	Workflow string
	// Tenant separates those who share an engine. Default: auth.tenant, else "main".
	Tenant string
	// Owner is who pays; it counts.
	Owner string
	// Arguments is what the effect depends on, as encoding/json writes it, or bytes as they are ([]byte). It
	// counts: the same key with other arguments is ErrKeyReused. Nothing of it is stored.
	Arguments any
	// Deadline bounds the function and this call, beside the workflow's timeouts and ctx. 0: they alone count.
	Deadline time.Duration
	// Info, when not nil, is filled in before Do returns.
	Info *Info
}

// Info is what Do can say of an operation beside its result.
type Info struct {
	Intent   string    // id in the log, for holdfast trace
	Replayed bool      // the result of an earlier or a concurrent call with this key: the function did not run for this one
	At       time.Time // when a replayed result was made; zero when it was not stored yet
	Attempts int       // how often the function ran for this operation
	// Pending says that the store had not confirmed the result within limits.commit_wait: it exists and is still being
	// written, and a crash now would leave the operation unknown (semantics 9, 28).
	Pending bool
	// Unrecorded says that the result could not be stored, being too large or no JSON. A later call gets ErrAnswerGone.
	Unrecorded bool
}

// Attempt is what a function under Do may know of itself.
type Attempt struct {
	Intent string
	Number int // 1 for the first
	// Key is the same for every attempt of one operation and for no other, and tells nothing of tenant or workflow:
	// what to send to a far side that takes an Idempotency-Key of its own.
	Key string
}

type attemptKey struct{}

// AttemptFrom returns the attempt that ctx belongs to. ok is false outside of a function under Do or a Handler.
func AttemptFrom(ctx context.Context) (a Attempt, ok bool) {
	a, ok = ctx.Value(attemptKey{}).(Attempt)
	return a, ok
}

// Do runs fn as one operation: its intent and its claim are durable before fn is called, and what fn returned is
// durable before Do returns it (durability: strict, the default for what is external). Whoever asks again with the
// same key gets that result, and fn does not run; whoever asks meanwhile waits for it (on_in_flight).
//
// The result is stored as JSON — []byte and string as they are — and every caller gets it as it reads back, the first
// one too.
//
// An error of fn leaves the outcome of an external operation unknown, unless the error says that nothing happened
// ([Definite], [NotSent], or any error with Definite() bool). So do a panic, which reaches the caller, and a function
// that has not returned when its time is over; what it returns later is kept as evidence. An unknown operation holds its
// key: ErrUnknown, until holdfast intents resolve. Under effect: generation a failure only cost something, and the key
// is free again.
//
// fn's time is over at the earliest of timeouts.attempt, timeouts.total, Operation.Deadline and ctx's own deadline less a
// margin. A ctx that is cancelled ends the caller's wait and not fn, unless the policy says on_disconnect: cancel
// and nobody else waits: a caller that comes back with the same key finds the result.
//
// Every error is an *Error; an error of fn is what it wraps.
func Do[T any](ctx context.Context, e *Engine, op Operation, fn func(ctx context.Context) (T, error)) (T, error) {
	var zero T
	if err := storable[T](); err != nil {
		return zero, err
	}
	var own T // as fn returned it: for the one case that it cannot be stored
	r, err := e.do(ctx, op, func(ctx context.Context) (product, error) {
		v, err := fn(ctx)
		if err != nil {
			return product{}, err
		}
		own = v
		return encode(&v), nil
	})
	if err != nil {
		return zero, err
	}
	if r.fault != nil {
		return own, nil
	}
	var v T
	if err := decode(r.product, &v); err != nil {
		gone := refusal(ErrAnswerGone, fmt.Sprintf("the stored result does not read as %T; nothing runs again", v))
		gone.Intent, gone.Err = r.intent, err
		return zero, gone
	}
	return v, nil
}

// product is what a function returned, as it is stored.
type product struct {
	data        []byte
	contentType string
	fault       error // why it cannot be stored
}

const (
	typeJSON  = "application/json"
	typeBytes = "application/octet-stream"
	typeText  = "text/plain; charset=utf-8"
)

// encode goes by the type that was asked for, not by the value in it: decode knows no more than that.
func encode[T any](v *T) product {
	switch v := any(v).(type) {
	case *[]byte:
		return product{data: *v, contentType: typeBytes}
	case *string:
		return product{data: []byte(*v), contentType: typeText}
	}
	data, err := json.Marshal(v)
	return product{data: data, contentType: typeJSON, fault: err}
}

func decode[T any](p product, v *T) error {
	want := typeJSON
	switch v := any(v).(type) {
	case *[]byte:
		if want = typeBytes; p.contentType == want {
			*v = append([]byte{}, p.data...)
			return nil
		}
	case *string:
		if want = typeText; p.contentType == want {
			*v = string(p.data)
			return nil
		}
	}
	if p.contentType != want {
		return fmt.Errorf("it is %s, not %s", p.contentType, want)
	}
	return json.Unmarshal(p.data, v)
}

// storable refuses, before anything happens, a type whose results could never be read back.
func storable[T any]() error {
	var zero T
	t := reflect.TypeFor[T]()
	err := encode(&zero).fault
	if err == nil && t.Kind() == reflect.Interface && t.NumMethod() > 0 {
		err = fmt.Errorf("JSON does not say which implementation of %s to make", t)
	}
	if err == nil {
		return nil
	}
	e := refusal(ErrInvalid, fmt.Sprintf("a result of type %s cannot be stored and read back; return a plain struct", t))
	e.Err = err
	return e
}

// describe writes arguments down for the fingerprint.
func describe(arguments any) (body []byte, contentType string, err error) {
	switch a := arguments.(type) {
	case nil:
		return nil, "", nil
	case []byte:
		return a, typeBytes, nil
	}
	body, err = json.Marshal(arguments)
	return body, typeJSON, err
}

package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
)

// rankVariable tells a process that Itself started which rank of which run it is.
const rankVariable = "GRADLAB_RANK"

// rankTask is what the variable holds, as JSON.
type rankTask struct {
	Rank        int    `json:"rank"`
	Coordinator string `json:"coordinator"`
	Config      string `json:"config"` // file, in the run's folder
	Token       string `json:"token"`  // file
	Dir         string `json:"dir,omitempty"`
	Cache       string `json:"cache,omitempty"`
}

// Itself is for Options.Join of a program of one's own: every rank of a run with net=grpc
// is this program, started once more. Its main must begin with RunAsRank. getenv is
// os.Getenv; of places, the folders count.
//
//	func main() {
//		experiments.RunAsRank(os.Getenv)
//		…
//		r, err := experiments.Execute(ctx, run, experiments.Options{Join: experiments.Itself(os.Getenv, places), Places: places})
func Itself(getenv func(string) string, places config.Places) func(rank int, coordinator, config, token string) Command {
	exe, err := os.Executable()
	if err != nil {
		exe = filepath.Clean(os.Args[0])
	}
	return func(rank int, coordinator, config, token string) Command {
		if getenv(rankVariable) != "" {
			return Command{Err: errForgotten}
		}
		task, _ := json.Marshal(rankTask{rank, coordinator, config, token, places.Dir, places.Cache}) // text and a number
		// The arguments tell whoever lists processes which one this is.
		return Command{Path: exe, Args: []string{"join", config, "--rank", strconv.Itoa(rank)}, Env: []string{rankVariable + "=" + string(task)}}
	}
}

// RunAsRank, called first in main, lets a program be the ranks of its own runs with
// net=grpc; see Itself. In a process that was started as a rank it runs the rank and
// ends the process; elsewhere it returns at once. getenv is os.Getenv.
func RunAsRank(getenv func(string) string) {
	var stop atomic.Bool
	o := JoinOptions{Getenv: getenv, Stopping: stop.Load, Logf: func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }}
	text := getenv(rankVariable)
	if text == "" {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals // at the first it stops at a step, at the second it ends
		stop.Store(true)
		<-signals
		os.Exit(1)
	}()
	if err := runRank(context.Background(), text, o); err != nil {
		fmt.Fprintln(os.Stderr, "gradlab:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// AsRank is RunAsRank for a program that hears signals itself: is reports whether this process
// was started as a rank, and err is how the rank ended. Of o the functions, Requeue and Getenv
// count, which is os.Getenv.
func AsRank(ctx context.Context, o JoinOptions) (is bool, err error) {
	text := o.Getenv(rankVariable)
	if text == "" {
		return false, nil
	}
	// A program that the rank starts is no rank.
	if err := os.Unsetenv(rankVariable); err != nil {
		return true, err
	}
	return true, runRank(ctx, text, o)
}

// runRank runs the rank that a text describes.
func runRank(ctx context.Context, text string, o JoinOptions) error {
	var task rankTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return fmt.Errorf("%s says which rank this process is, and cannot be read: %w", rankVariable, err)
	}
	recipe, err := config.LoadRecipe(task.Config)
	if err != nil {
		return err
	}
	runs, err := recipe.Runs(nil, false)
	if err != nil {
		return err
	}
	if len(runs) != 1 {
		return fmt.Errorf("%s holds %d runs, want one", task.Config, len(runs))
	}
	token, err := regular.ReadText(task.Token, regular.Text)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	o.Identity = Who{Rank: task.Rank, Coordinator: task.Coordinator, Source: "the program that started this one"}
	o.Token, o.Timeout, o.Launched = strings.TrimSpace(string(token)), LaunchTimeout, true
	o.Places, o.Folder = config.Places{Dir: task.Dir, Cache: task.Cache}, func() string { return filepath.Dir(task.Config) }
	return Join(ctx, runs[0], o)
}

// errForgotten keeps a program whose ranks do not know that they are ranks from starting
// itself for ever.
var errForgotten = errors.New("this process was started as a rank of a run, and begins a run of its own: call experiments.RunAsRank first in main")

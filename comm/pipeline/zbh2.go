package pipeline

// ZBH2 begins with twice the forward passes of 1F1B, so that nothing waits for the first
// gradient, and makes gradients of weights where a device would wait: ZB-H2 (Qi et al.
// 2023, arXiv 2401.10241). Where F, B and W take the same time no device idles from its first
// action to its last; each holds twice as much as with 1F1B. Updates must be made device by
// device, so a check over all gradients, such as of their norm, comes after the step.
type ZBH2 struct{}

var _ = Schedules.Add("zbh2", "1f1b with twice as many forward passes ahead: no idle time where F = B = W", ZBH2{})

// Plan implements Schedule.
func (ZBH2) Plan(devices, micros int) (*Plan, error) {
	if err := check(devices, micros); err != nil {
		return nil, err
	}
	// Every action takes one unit. A device takes a gradient of inputs as soon as there is
	// one, else a forward pass while it holds few enough, else a gradient of weights.
	type state struct{ forward, inputs, weights int }
	at := make([]state, devices)
	p := &Plan{Micros: micros, Stages: looped(devices, 1), Devices: make([][]Cell, devices)}
	for {
		before := append([]state(nil), at...)
		over := true
		for d := range at {
			s, l := &at[d], line(p.Devices[d])
			over = over && s.weights == micros
			fed := d == 0 || before[d-1].forward > s.forward
			told := s.inputs < s.forward
			if d+1 < devices {
				told = told && before[d+1].inputs > s.inputs
			}
			switch {
			case told:
				l.add(d, Inputs, s.inputs)
				s.inputs++
			case fed && s.forward < micros && s.forward-s.inputs < 2*(devices-d)-1 && s.forward-s.weights < 2*devices-1:
				l.add(d, Forward, s.forward)
				s.forward++
			case s.weights < s.inputs:
				l.add(d, Weights, s.weights)
				s.weights++
			}
			p.Devices[d] = l
		}
		if over {
			return p, nil
		}
	}
}

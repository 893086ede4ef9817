package postgres

func (l *Ledger) startWriters() {}

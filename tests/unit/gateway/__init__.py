"""The sending side without a broker: buffer, back pressure, named errors."""

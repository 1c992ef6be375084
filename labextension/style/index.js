import '../../jupyter_dist/views/static/topology.css';
import '../../jupyter_dist/views/static/rank_panel.css';
import './panel.css';
